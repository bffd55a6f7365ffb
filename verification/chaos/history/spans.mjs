/** How much of the span from `from` to `to` lies in any of `spans`, in ms. @param {readonly { from: number, to: number }[]} spans */
export function overlapMs(spans, from, to) {
  let covered = 0;
  let until = from;
  for (const span of [...spans].sort((a, b) => a.from - b.from)) {
    const start = Math.max(until, span.from);
    const end = Math.min(to, span.to);
    if (end <= start) continue;
    covered += end - start;
    until = end;
  }
  return covered;
}

/** The rest of the span from `from` to `to` without `spans`. @param {readonly { from: number, to: number }[]} spans */
export function without(spans, from, to) {
  const rest = [];
  let start = from;
  for (const span of [...spans].sort((a, b) => a.from - b.from)) {
    if (span.to <= start) continue;
    if (span.from >= to) break;
    if (span.from > start) rest.push({ from: start, to: span.from });
    start = span.to;
  }
  if (start < to) rest.push({ from: start, to });
  return rest;
}
