/** A fenced block, code in a line, or the target of a link, in its place or at the end of the page. */
const PARTS = /^ *(```+)[^]*?^ *\1$|(`+)(?:(?!\n\n)[^])*?\2|(\]\(|^\[[^\]\n]+\]: )([^)\s]+)/gm;

/** @type {typeof import('../index.mjs').mapLinks} */
export function mapLinks(markdown, change) {
  return markdown.replace(PARTS, (part, _fence, _code, before, link) =>
    link === undefined ? part : `${before}${change(link)}`,
  );
}
