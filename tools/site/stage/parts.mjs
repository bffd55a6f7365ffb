const MARK = /^<!-- ((?:[\w-]+\/)*README\.md): (.+) -->$/gm;

/**
 * A home page is made of parts of a README: its first paragraph (the claim), what follows up to the first heading (the
 * example), and sections by their heading.
 *
 * @param {string} markdown @param {(file: string) => string} read
 */
export function withParts(markdown, read) {
  return markdown.replace(MARK, (_mark, file, name) => {
    const part = partsOf(read(file)).get(name);
    if (part === undefined) throw new Error(`${file} has no part "${name}" for the home page.`);
    return part;
  });
}

/** @param {string} readme */
function partsOf(readme) {
  const [start, ...sections] = readme.split(/^(?=## )/m).map((text) => text.trim());
  const [, , claim, ...example] = start.split('\n\n'); // after the title and the languages
  return new Map([
    ['the claim', claim],
    ['the example', example.join('\n\n')],
    ...sections.map((section) => [section.split('\n', 1)[0], section]),
  ]);
}
