/** @param {readonly number[]} values @returns {number} */
export function median(values) {
  const sorted = values.filter((value) => !Number.isNaN(value)).toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  if (sorted.length === 0) return NaN;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/**
 * Jain's index of fairness: 1 when all got the same, 1/n when one got everything (Jain, Chiu, Hawe, DEC-TR-301, 1984).
 *
 * @param {readonly number[]} shares
 */
export function jain(shares) {
  const sum = shares.reduce((a, b) => a + b, 0);
  const squares = shares.reduce((a, b) => a + b * b, 0);
  return squares === 0 ? NaN : sum ** 2 / (shares.length * squares);
}

/**
 * The median of each figure over the turns, and `leastPerSecond`, the smallest throughput of any. A value that is no number is that of
 * the first turn.
 *
 * @param {any[]} turns
 */
export function medianOf(turns) {
  const [first] = turns;
  const figures = Object.entries(first).map(([name, value]) => [
    name,
    typeof value === 'number' ? median(turns.map((turn) => turn[name])) : value,
  ]);
  const leastPerSecond = Math.min(...turns.map(({ perSecond = NaN }) => perSecond));
  return { ...Object.fromEntries(figures), leastPerSecond, turns: turns.length };
}
