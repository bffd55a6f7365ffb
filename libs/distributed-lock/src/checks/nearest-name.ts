/** The name that somebody who wrote `written` most probably meant, or `undefined` where none is near. */
export function nearestName(written: string, names: readonly string[]): string | undefined {
  const [best] = names
    .map((name) => ({ name, distance: distanceOf(written.toLowerCase(), name.toLowerCase()) }))
    .sort((a, b) => a.distance - b.distance);
  return best && best.distance <= Math.max(2, best.name.length / 3) ? best.name : undefined;
}

/** How many letters must be added, left out or replaced; names that begin with each other are nearer than that. */
function distanceOf(a: string, b: string): number {
  if (a.length >= 3 && (a.startsWith(b) || b.startsWith(a))) return a === b ? 0 : 1;
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
