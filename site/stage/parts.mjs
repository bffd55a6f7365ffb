const MARK = /^<!-- README\.md: (.+) -->$/gm;

/**
 * The home page is made of parts of the README: its first paragraph (the claim), what follows up to the first heading (the
 * example), and sections by their heading.
 *
 * @param {string} markdown @param {string} readme
 */
export function withParts(markdown, readme) {
  const [start, ...sections] = readme.split(/^(?=## )/m).map((text) => text.trim());
  const [, , claim, ...example] = start.split('\n\n'); // after the title and the languages
  const parts = new Map([
    ['the claim', claim],
    ['the example', example.join('\n\n')],
    ...sections.map((section) => [section.split('\n', 1)[0], section]),
  ]);
  return markdown.replace(MARK, (_mark, name) => {
    if (!parts.has(name)) throw new Error(`README.md has no part "${name}" for the home page.`);
    return parts.get(name);
  });
}
