import { readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { pageFiles } from './addresses.mjs';
import { ABOUT, fromRoot } from './places.mjs';

/** Descriptions of pages that no index and no first sentence describes well. */
const SAID = {
  'tools/site/home.md': ABOUT,
  'tools/site/home.zh.md':
    'NestJS 的分布式锁：@Locked、LockService，以及 Redis、PostgreSQL、MySQL、SQLite、etcd、ZooKeeper',
  'docs/README.md': 'All pages, by the question that each answers',
  'CONTRIBUTING.md': 'Commands, folders, tests, and how to add an option, an event or a store',
  'docs/recipes/tests.md': 'Unit tests and tests with Nest, without a server',
};

const INDEXES = ['docs/README.md', 'docs/decisions/README.md'];

/** What each page is about, in a line: as an index says, or else by what it holds. @returns {Map<string, string>} */
export function descriptions() {
  const known = new Map([...INDEXES.flatMap(rowsOf), ...Object.entries(SAID)]);
  const ofContent = (file) => (file.includes('/recipes/') ? tasksOf(file) : firstSentence(file));
  return new Map(pageFiles().map((file) => [file, known.get(file) ?? ofContent(file)]));
}

/** The rows of an index: `| [stores.md](stores.md) | Which store? |`. @param {string} index */
function rowsOf(index) {
  const rows = textOf(index).matchAll(/^\| \[[^\]]*\]\(([^)#]+)\) +\| (.+?) +\|/gm);
  return [...rows].map(([, link, about]) => [posix.join(posix.dirname(index), link), plain(about)]);
}

/** The tasks of a page of recipes are its headings. @param {string} file */
function tasksOf(file) {
  const headings = [...textOf(file).matchAll(/^## (.+)$/gm)].map(([, heading]) => plain(heading));
  return headings.length > 0 ? headings.join(' · ') : firstSentence(file);
}

/** The first sentence of the first paragraph that is more than a link. @param {string} file */
function firstSentence(file) {
  const paragraphs = textOf(file)
    .replace(/^---\n[^]*?\n---\n/, '')
    .split(/\n{2,}/);
  const first =
    paragraphs.map(plain).find((it) => /^(?!#|!|English ·|\[English|[-|`<]).{30}/s.test(it)) ?? '';
  return /^.+?[.?!。？！](?=\s|$|(?<=[。？！]))/s.exec(first)?.[0] ?? first;
}

const textOf = (file) => readFileSync(fromRoot(file), 'utf8');

const plain = (markdown) =>
  markdown
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/[`*]/g, '')
    .replace(/\s+/g, ' ')
    .trim();
