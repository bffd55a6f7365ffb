/**
 * The table of a scenario on a page of results.
 *
 * @param {string} page @param {string} scenario
 * @returns {Record<string, string>[]} each row by the titles of its columns, and by `name`; none without such a table
 */
export function readTable(page, scenario) {
  const [, lines] = new RegExp(`^Scenario \`${scenario}\`[^|]*?\\n\\n((?:\\|.*\\n)+)`, 'm').exec(page) ?? [];
  if (!lines) return [];
  const [titles, , ...rows] = lines.trim().split('\n').map(cellsOf);
  return rows.map(([name, ...cells]) => ({
    name,
    ...Object.fromEntries(cells.map((cell, i) => [titles[i + 1], cell])),
  }));
}

/** @param {string} line of a table @returns {string[]} */
export function cellsOf(line) {
  return line
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim());
}

/** @param {string} shown such as "1 182 ms" or "~3.00" */
export const numberOf = (shown) => Number.parseFloat(shown.replaceAll(/[ ~](?=\d)/g, ''));
