/** The anchor of a heading, as GitHub makes it, so that links with an anchor work in both places. @param {string} heading */
export function slug(heading) {
  return heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, '')
    .replaceAll(' ', '-');
}
