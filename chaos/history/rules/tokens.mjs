/**
 * Tokens grow: whoever asks after another was let in gets a larger one; none comes twice. Readers are ordered against
 * writers only, holders of permits not at all.
 *
 * One exception: a process that does not know yet that its lock is lost with the data may pass it on to its own callers
 * for a lease at most, under tokens that it was given before the loss.
 */
export function tokens(trial) {
  const entered = trial.calls.filter(({ token, mode }) => token !== undefined && mode !== 'permits');
  return [...givenTwice(entered.filter(({ mode }) => mode === 'exclusive')), ...regressions(trial, entered)];
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
    if (!before || call.token > before.token || isOfLostTenure(trial, call, before)) continue;
    findings.push(
      `"${call.key}": ${call.id} asked after ${before.id} was in with ${before.token}, and got ${call.token}`,
    );
  }
  return findings;
}

function keepLargest(largest, call) {
  if (call.token > (largest.get(call.key)?.token ?? 0)) largest.set(call.key, call);
}

function isOfLostTenure({ faults, settings }, call, before) {
  return (
    call.tenureFrom < before.enteredAt &&
    faults.some(
      ({ losesData, from, to }) =>
        losesData &&
        call.tenureFrom <= to &&
        call.enteredAt >= from &&
        call.enteredAt <= to + settings.leaseMs,
    )
  );
}
