/** As `Math.min(...values)`, which throws for more than about 100 000 values. */
export function minOf(values: Iterable<number>): number {
  let min = Infinity;
  for (const value of values) min = Math.min(min, value);
  return min;
}

/** As `Math.max(...values)`, which throws for more than about 100 000 values. */
export function maxOf(values: Iterable<number>): number {
  let max = -Infinity;
  for (const value of values) max = Math.max(max, value);
  return max;
}
