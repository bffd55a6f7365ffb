import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { addressOf, pageFiles } from '../addresses.mjs';
import { fromRoot, PAGES } from '../places.mjs';
import { linksOfSite } from './links-of-site.mjs';
import { withParts } from './parts.mjs';

export function clearPages() {
  rmSync(PAGES, { recursive: true, force: true });
}

/** Writes the pages that have changed, with the links of the site. @throws Error for links that lead nowhere */
export function writePages() {
  const files = new Set(pageFiles());
  const dead = new Set();
  const site = { isPage: (file) => files.has(file), dead: (link) => void dead.add(link) };
  const read = (file) => linksOfSite(readFileSync(fromRoot(file), 'utf8'), file, site);
  for (const file of files) writeChanged(`${PAGES}/${addressOf(file)}`, withParts(read(file), read));
  cpSync(fromRoot('docs/images'), `${PAGES}/images`, { recursive: true });
  cpSync(fromRoot('tools/site/logo.svg'), `${PAGES}/public/logo.svg`);
  if (dead.size > 0) throw new Error(`Links that lead nowhere:\n${[...dead].join('\n')}`);
}

/** @param {string} page @param {string} text */
function writeChanged(page, text) {
  if (existsSync(page) && readFileSync(page, 'utf8') === text) return;
  mkdirSync(dirname(page), { recursive: true });
  writeFileSync(page, text);
}
