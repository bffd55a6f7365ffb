/** The register took no write of a superseded holder, and no update is lost. */
export function register({ register: requests }) {
  const findings = [];
  const cells = new Map();
  for (const { type, key, token, mode, accepted, value, call } of requests) {
    const cell = cells.get(key) ?? { seen: 0, written: 0, value: 0 };
    cells.set(key, cell);
    if (!accepted || mode === 'permits') continue;
    const isShared = mode === 'shared';
    const limit = isShared ? cell.written : cell.seen;
    if (token < limit) findings.push(`"${key}": ${call} came in with ${token} after ${limit}`);
    cell.seen = Math.max(cell.seen, token);
    if (!isShared) cell.written = Math.max(cell.written, token);
    if (type !== 'write') continue;
    if (value !== cell.value + 1)
      findings.push(`"${key}": ${call} wrote ${value} over ${cell.value}: an update is lost`);
    cell.value = value;
  }
  return findings;
}
