import { SOURCE } from '../../stage/links-of-site.mjs';

/** Shows a link to a file of a repository whose address is not known as its text. @param {import('markdown-it').default} md */
export function sources(md) {
  md.core.ruler.push('sources', ({ tokens }) => {
    for (const { children } of tokens) unlink(children ?? []);
  });
}

/** @param {import('markdown-it').Token[]} children */
function unlink(children) {
  let isSource = false;
  for (const token of children) {
    if (token.type === 'link_open') isSource = token.attrGet('href')?.startsWith(SOURCE) ?? false;
    if (!isSource || !token.type.startsWith('link_')) continue;
    token.tag = 'span';
    token.attrs = token.nesting === 1 ? [['title', token.attrGet('href').slice(SOURCE.length)]] : null;
    token.type = token.nesting === 1 ? 'span_open' : 'span_close';
  }
}
