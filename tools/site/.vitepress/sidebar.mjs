import { readFileSync } from 'node:fs';
import { addressOf, decisionFiles } from '../addresses.mjs';
import { SIDEBAR } from '../pages.mjs';
import { fromRoot } from '../places.mjs';

/** @param {'root' | 'zh'} locale */
export function sidebar(locale) {
  const groups = Object.entries(SIDEBAR[locale]).map(([text, pages]) => group(text, Object.entries(pages)));
  if (locale !== 'root') return groups;
  const decisions = decisionFiles().map((file) => [file, titleOf(file)]);
  return { '/decisions/': [group('Decisions', decisions), ...groups], '/': groups };
}

const group = (text, pages) => ({
  text,
  items: pages.map(([file, name]) => ({ text: name, link: linkTo(file) })),
});

/** @param {string} file */
export const linkTo = (file) => `/${addressOf(file).replace(/(^|\/)index\.md$|\.md$/, '$1')}`;

/** `# 0003: A queue in Redis` as `3. A queue in Redis`. @param {string} file */
function titleOf(file) {
  const [, title] = /^# 0*(.+)$/m.exec(readFileSync(fromRoot(file), 'utf8'));
  return title.replace(':', '.');
}
