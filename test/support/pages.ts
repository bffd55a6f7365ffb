import { readFileSync, readdirSync } from 'node:fs';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** The text of a page, named from the root of the repository. */
export const readPage = (page: string): string => readFileSync(posix.join(ROOT, page), 'utf8');

/** The pages below a folder, named from the root of the repository. */
export function pagesBelow(folder: string): string[] {
  return readdirSync(posix.join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md'))
    .map((file) => posix.join(folder, file))
    .sort();
}

export const withoutCode = (text: string): string => text.replaceAll(/^```[^]*?^```$/gm, '');

export const headingsOf = (text: string): string[] =>
  [...withoutCode(text).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => heading);

/** As GitHub makes it: lower case, no punctuation, a hyphen for each space. */
export const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-');
