/** The names of our options in other libraries. If a name stands for several, the first one that exists is suggested. */
const ELSEWHERE: Readonly<Record<string, readonly string[]>> = {
  leaseMs: ['ttl', 'duration', 'expire', 'expires', 'expiry', 'expiration', 'leaseTime'],
  watchdogTimeoutMs: ['ttl', 'lockTtl', 'leaseMs', 'leaseTime'],
  waitMs: [
    'timeout',
    'acquireTimeout',
    'waitTime',
    'waitTimeout',
    'retry',
    'retries',
    'retryCount',
    'maxRetries',
  ],
  permits: ['limit', 'max', 'concurrency'],
  keyPrefix: ['prefix', 'namespace'],
  store: ['redis', 'client', 'driver', 'connection'],
};

/** The name that `written` is probably a misspelling of, or another word for; `undefined` if there is none. */
export function nearestName(written: string, names: readonly string[]): string | undefined {
  const word = written.toLowerCase().replace(/ms$/, '');
  const meant = names.find((name) =>
    ELSEWHERE[name]?.some((other) => [word, `${word}ms`].includes(other.toLowerCase())),
  );
  if (meant !== undefined) return meant;
  const [best] = names
    .map((name) => ({ name, distance: distanceOf(written.toLowerCase(), name.toLowerCase()) }))
    .sort((a, b) => a.distance - b.distance);
  return best && best.distance <= (written.length > 3 ? Math.max(2, best.name.length / 3) : 1)
    ? best.name
    : undefined;
}

/** The number of letters to add, leave out or replace; 1 if one name begins with the other. */
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
