import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The paragraph of each page that `linkPages` fills. */
export const LINKS = 'All pages:';

/** Lists in each page those of all stores that have been measured. @param {string} folder */
export function linkPages(folder) {
  const files = readdirSync(folder).filter((file) => /^benchmarks(-\w+)?\.md$/.test(file));
  const pages = files.map((file) => ({ file, text: readFileSync(join(folder, file), 'utf8') }));
  const titleOf = ({ text }) => text.split('\n')[0].slice('# '.length);
  const sorted = pages.toSorted((a, b) => (titleOf(a) < titleOf(b) ? -1 : 1));
  for (const own of pages) {
    const links = sorted.map((page) => (page === own ? titleOf(page) : `[${titleOf(page)}](${page.file})`));
    const linked = own.text.replace(/^All pages:.*$/m, `${LINKS} ${links.join(', ')}.`);
    writeFileSync(join(folder, own.file), linked);
  }
}
