import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { addressOf, decisionFiles } from './addresses.mjs';
import { descriptions } from './descriptions.mjs';
import { SIDEBAR } from './pages.mjs';
import { PAGES, SITE, SITE_URL } from './places.mjs';
import { mapLinks } from './stage/map-links.mjs';

/**
 * The site as plain text, for readers that are programs: each page's Markdown beside it, an index in llms.txt
 * (https://llmstxt.org), and all English pages in one file.
 */
export function writePlainText() {
  for (const [file] of descriptions()) {
    const page = addressOf(file);
    writeFileSync(`${SITE}/${page}`, plainTextOf(page));
  }
  cpSync(`${PAGES}/images`, `${SITE}/images`, { recursive: true });
  writeFileSync(`${SITE}/llms.txt`, index());
  writeFileSync(`${SITE}/llms-full.txt`, everything());
}

function index() {
  const described = descriptions();
  const line = ([file, name]) =>
    `- [${name}](${new URL(addressOf(file), SITE_URL).href}): ${described.get(file)}`;
  const groups = Object.entries({ ...SIDEBAR.root, ...SIDEBAR.zh });
  return [
    `# nestjs-distributed-lock`,
    `> ${described.get('tools/site/home.md')}`,
    `All pages in one file: ${new URL('llms-full.txt', SITE_URL).href}`,
    ...groups.map(([group, pages]) => `## ${group}\n\n${Object.entries(pages).map(line).join('\n')}`),
  ]
    .join('\n\n')
    .concat('\n');
}

/** Without what is for VitePress. @param {string} page */
function plainTextOf(page) {
  return readFileSync(`${PAGES}/${page}`, 'utf8').replace(/^---\n[^]*?\n---\n+/, '');
}

/** @param {string} page */
function withWholeLinks(page) {
  return mapLinks(plainTextOf(page), (link) => new URL(link, new URL(page, SITE_URL)).href);
}

function everything() {
  const files = [...Object.values(SIDEBAR.root).flatMap(Object.keys), ...decisionFiles()];
  return files.map(addressOf).map(withWholeLinks).join('\n\n---\n\n');
}
