/** How often something has happened in the histories of this process. No history depends on it. */
let counts = new Map<string, number>();

export function count(what: string, times = 1): void {
  counts.set(what, (counts.get(what) ?? 0) + times);
}

/** What was counted since the last time. */
export function takeCounts(): Readonly<Record<string, number>> {
  const taken = Object.fromEntries(counts);
  counts = new Map();
  return taken;
}
