import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { mapLinks } from '../stage/map-links.mjs';

/** @type {typeof import('../index.mjs').deadLinks} */
export function deadLinks(folder, site) {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  const anchors = new Map();
  return files
    .filter((file) => /\.(html|md|txt)$/.test(file) && file !== '404.html')
    .flatMap((file) =>
      linksOf(file)
        .filter((link) => isDead(link, file))
        .map((link) => `${file}: ${link}`),
    );

  /** @param {string} file */
  function linksOf(file) {
    const text = readFileSync(join(folder, file), 'utf8');
    return [...new Set(file.endsWith('.html') ? linksInHtml(text) : linksInMarkdown(text))];
  }

  /** @param {string} link @param {string} file */
  function isDead(link, file) {
    const { origin, pathname, hash } = new URL(link, new URL(file, site));
    if (origin !== site.origin) return false;
    if (!pathname.startsWith(site.pathname)) return true;
    const path = decodeURI(pathname.slice(site.pathname.length));
    const found = [path, `${path}.html`, join(path, 'index.html')].find((it) => isFile(join(folder, it)));
    if (found === undefined) return true;
    return hash !== '' && !anchorsOf(found.replace(/\.md$/, '.html')).has(decodeURIComponent(hash.slice(1)));
  }

  /** @param {string} page */
  function anchorsOf(page) {
    const found = anchors.get(page) ?? new Set(idsIn(readFileSync(join(folder, page), 'utf8')));
    anchors.set(page, found);
    return found;
  }
}

/** @param {string} html */
const linksInHtml = (html) =>
  [...html.matchAll(/ (?:href|src)="([^"]+)"/g)].map(([, link]) => link.replaceAll('&amp;', '&'));

/** @param {string} markdown */
function linksInMarkdown(markdown) {
  const links = [];
  mapLinks(markdown, (link) => (links.push(link), link));
  return links;
}

/** @param {string} html */
const idsIn = (html) => [...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id);

/** @param {string} path */
const isFile = (path) => statSync(path, { throwIfNoEntry: false })?.isFile() === true;
