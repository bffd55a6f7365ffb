import { readFileSync } from 'node:fs';
import { format } from 'oxfmt';

const {
  $schema: _schema,
  ignorePatterns: _ignored,
  ...style
} = JSON.parse(readFileSync(new URL('../../.oxfmtrc.json', import.meta.url), 'utf8'));

/** @type {typeof import("./index.d.mts").formatMarkdown} */
export async function formatMarkdown(text) {
  const { code, errors } = await format('page.md', text, style);
  if (errors.length > 0) throw new Error(`The formatter: ${errors.map(({ message }) => message).join('; ')}`);
  return code;
}
