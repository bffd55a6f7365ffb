// Tables of docs/compare.md that programs write, each between two comments.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { formatMarkdown } from '#markdown';

const PAGE = fileURLToPath(new URL('../../../../docs/compare.md', import.meta.url));

/** Markdown, formatted. @param {{ heads: string[], rows: string[][] }} table */
export async function markdownOf({ heads, rows }) {
  const line = (cells) => `| ${cells.join(' | ')} |\n`;
  const text = line(['', ...heads]) + line(['---', ...heads.map(() => '---')]) + rows.map(line).join('');
  return (await formatMarkdown(text)).trim();
}

/** Reads the table of this name from the page. */
export const writtenTable = (name) => between(readFileSync(PAGE, 'utf8'), name).text;

/** Puts a table in the place of the one that the page has under this name. */
export async function writeTable(name, table) {
  const page = readFileSync(PAGE, 'utf8');
  const { from, to } = between(page, name);
  writeFileSync(PAGE, `${page.slice(0, from)}\n${await markdownOf(table)}\n\n${page.slice(to)}`);
}

function between(page, name) {
  const head = `<!-- ${name}: `;
  const from = page.indexOf('\n', page.indexOf(head)) + 1;
  const to = page.indexOf(`<!-- end of ${name} -->`);
  if (page.indexOf(head) < 0 || to < from)
    throw new Error(`docs/compare.md has no place for the table of ${name}.`);
  return { from, to, text: page.slice(from, to).trim() };
}
