/**
 * Tokens grow: whoever asks after another was let in gets a larger one; none comes twice. Readers are ordered against
 * writers only, holders of permits not at all.
 *
 * One exception: a process that does not know yet that its lock is lost with the data may pass it on to its own callers
 * for a lease at most, under tokens that it was given before the loss.
 */
export function tokens(trial) {
  const entered = trial.calls.filter(({ token, mode }) => token !== undefined && mode !== 'permits');
  return [
    ...givenTwice(entered.filter(({ mode }) => mode === 'exclusive')),
    ...regressions(trial, entered),
    ...runaways(trial),
  ];
}

/**
 * Tokens that are ahead of the clock: a server that forgets starts again from its clock, when its leases are over at the
 * earliest, and must not give smaller ones. Tokens count microseconds.
 */
function runaways({ calls, settings }) {
  const { wallAt, shiftsClock, leaseMs, at: startedAt } = settings;
  if (wallAt === undefined || shiftsClock) return [];
  const aheadMs = ({ token, enteredAt }) => token / 1000 - (wallAt + enteredAt - startedAt);
  const all = calls.filter((call) => call.token !== undefined && aheadMs(call) > leaseMs);
  if (all.length === 0) return [];
  const furthest = all.reduce((worst, call) => (aheadMs(call) > aheadMs(worst) ? call : worst));
  const { id, key, token } = furthest;
  return [
    `"${key}": token ${token} of ${id} is ${(aheadMs(furthest) / 1000).toFixed(1)} s ahead of the clock, as one of ${all.length}`,
  ];
}

function givenTwice(entered) {
  const findings = [];
  const given = new Map();
  for (const { id, key, token } of entered) {
    const first = given.get(`${key} ${token}`);
    if (first) findings.push(`"${key}": token ${token} was given to ${first} and to ${id}`);
    given.set(`${key} ${token}`, id);
  }
  return findings;
}

function regressions(trial, entered) {
  const findings = [];
  const byEntry = [...entered].sort((a, b) => a.enteredAt - b.enteredAt);
  const byAsking = [...entered].sort((a, b) => a.askedAt - b.askedAt);
  const largest = { any: new Map(), exclusive: new Map() };
  let next = 0;
  for (const call of byAsking) {
    for (; next < byEntry.length && byEntry[next].enteredAt < call.askedAt; next++) {
      keepLargest(largest.any, byEntry[next]);
      if (byEntry[next].mode === 'exclusive') keepLargest(largest.exclusive, byEntry[next]);
    }
    const before = (call.mode === 'shared' ? largest.exclusive : largest.any).get(call.key);
    if (!before || call.token > before.token || isOfLostOwner(trial, call, before)) continue;
    findings.push(
      `"${call.key}": ${call.id} asked after ${before.id} was in with ${before.token}, and got ${call.token}`,
    );
  }
  return findings;
}

function keepLargest(largest, call) {
  if (call.token > (largest.get(call.key)?.token ?? 0)) largest.set(call.key, call);
}

function isOfLostOwner({ faults, settings }, call, before) {
  return (
    call.ownerFrom < before.enteredAt &&
    faults.some(
      ({ losesData, from, to, cleanAt = to }) =>
        losesData &&
        call.ownerFrom <= cleanAt &&
        call.enteredAt >= from &&
        call.enteredAt <= cleanAt + settings.leaseMs,
    )
  );
}
