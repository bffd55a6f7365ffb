/** A word with more mistakes than this was not meant. */
const MOST_MISTAKES = 3;

/** The name that was probably meant; `undefined` when none is near. */
export function nearest(word: string, names: readonly string[]): string | undefined {
  const within = Math.min(MOST_MISTAKES, Math.floor(word.length / 2));
  return names
    .map((name) => ({ name, mistakes: distance(word, name) }))
    .filter(({ mistakes }) => mistakes <= within)
    .sort((a, b) => a.mistakes - b.mistakes)[0]?.name;
}

/** How many letters must be put in, taken out or changed (Levenshtein). */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (const [i, letter] of a.split('').entries()) {
    const next = [i + 1];
    for (const [j, other] of b.split('').entries()) {
      next.push(Math.min(row[j + 1]! + 1, next[j]! + 1, row[j]! + (letter === other ? 0 : 1)));
    }
    row = next;
  }
  return row.at(-1)!;
}
