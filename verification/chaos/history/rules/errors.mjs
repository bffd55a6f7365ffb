/** How long after a call has failed its fault may have been over, beyond the time it takes to recover. */
const BEFORE_MS = 500;
const ALWAYS_FINE = ['done', 'LOCK_WAIT_TIMEOUT', 'mishap'];

/**
 * Calls fail for a reason: the store's troubles and lost locks under faults, shutdown at shutdown, aborts if aborted. What
 * leaves a majority of the nodes is no reason.
 */
export function errors(trial) {
  const { calls, apps, settings } = trial;
  return calls
    .filter(({ outcome }) => outcome !== undefined && !ALWAYS_FINE.includes(outcome))
    .filter((call) => !isExplained(trial, call, apps.get(call.app), settings))
    .map(
      ({ id, key, outcome, detail, askedAt, settledAt }) =>
        `${id} "${key}" failed without a reason, ${(askedAt - settings.at).toFixed(0)} to ${(settledAt - settings.at).toFixed(0)} ms: ${outcome}: ${detail}`,
    );
}

function isExplained({ faults }, { outcome, askedAt, settledAt }, app, settings) {
  switch (outcome) {
    case 'LOCK_SHUTDOWN':
      return app?.closingAt <= settledAt;
    case 'aborted':
      return settings.aborts === true;
    case 'LOCK_LOST':
    case 'LOCK_STORE': {
      const isClosing = app?.closingAt <= settledAt;
      const wasPaused = app?.pauses.some(({ from, to }) => from <= settledAt && to >= askedAt);
      const hadFault = faults.some(
        ({ from, to, recoverMs, sparesMajority }) =>
          !sparesMajority && from <= settledAt && askedAt <= to + recoverMs + BEFORE_MS,
      );
      return isClosing || wasPaused || hadFault;
    }
    default:
      return false;
  }
}
