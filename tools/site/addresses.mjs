import { readdirSync } from 'node:fs';
import { SIDEBAR } from './pages.mjs';
import { fromRoot } from './places.mjs';

/** Pages that have another place on the site than in docs/. */
const MOVED = {
  'README.md': 'readme.md',
  'docs/zh/README.md': 'zh/readme.md',
  '.github/SECURITY.md': 'security.md',
  'CHANGELOG.md': 'changelog.md',
  'CONTRIBUTING.md': 'contributing.md',
  'verification/TRACK-RECORD.md': 'track-record.md',
  'docs/README.md': 'pages.md',
  'docs/decisions/README.md': 'decisions/index.md',
  'tools/site/home.md': 'index.md',
  'tools/site/home.zh.md': 'zh/index.md',
};

/** @param {string} file of the repository @returns {string | undefined} its page on the site */
export function addressOf(file) {
  return MOVED[file] ?? /^docs\/(.+\.md)$/.exec(file)?.[1];
}

/** Every file that becomes a page: those of the sidebar, the home pages and the decisions. */
export function pageFiles() {
  const listed = Object.values(SIDEBAR).flatMap((groups) => Object.values(groups).flatMap(Object.keys));
  return ['tools/site/home.md', 'tools/site/home.zh.md', ...listed, ...decisionFiles()];
}

/** In their order: a decision needs no line in the sidebar's table. */
export function decisionFiles() {
  const folder = 'docs/decisions';
  return readdirSync(fromRoot(folder))
    .filter((file) => /^\d{4}-.+\.md$/.test(file))
    .sort()
    .map((file) => `${folder}/${file}`);
}
