/**
 * A text of the built library with the change of a mutant.
 *
 * @param {string} source @param {import('../index.d.mts').Mutant} mutant
 * @throws Error when there is nothing to change: the library has moved on, and the mutant must, too
 */
export function mutate(source, { from, to, file }) {
  if (!source.includes(from)) throw new Error(`There is no "${from}" in ${file} any more.`);
  return source.replaceAll(from, to);
}
