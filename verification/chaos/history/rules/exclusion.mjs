/**
 * Never do more believe in a lock at once than it allows. Who lost its lock with the data does not count, for one lease.
 *
 * A holder believes from the first moment at which its lock said that it is valid to the last one.
 */
export function exclusion(trial) {
  return crowds(trial).flatMap((all) => {
    const rest = all.filter((hold) => !all.some((other) => lostTo(trial, hold, other)));
    return mayShare(rest) ? [] : [describe(trial, rest)];
  });
}

/** How often more believed in a lock than it allows, excused or not. */
export function overlaps(trial) {
  return crowds(trial).length;
}

/** Each time that somebody began to believe while too many others did: those others, and the newcomer as the last. */
function crowds({ calls }) {
  const found = [];
  const active = new Map();
  const holds = calls.filter((call) => typeof call.believedFrom === 'number');
  for (const hold of holds.sort((a, b) => a.believedFrom - b.believedFrom)) {
    const others = (active.get(hold.key) ?? []).filter((other) => other.believedTo > hold.believedFrom);
    const all = [...others, hold];
    active.set(hold.key, all);
    if (!mayShare(all)) found.push(all);
  }
  return found;
}

/** @param {readonly import('../../index.d.mts').CallRecord[]} all who are inside together */
function mayShare(all) {
  const [first, ...others] = all;
  if (others.length === 0) return true;
  if (others.some(({ mode }) => mode !== first.mode)) return false;
  const taken = all.reduce((sum, { weight }) => sum + weight, 0);
  return first.mode === 'shared' || (first.mode === 'permits' && taken <= first.permits);
}

/** Whether `hold` was granted before a loss of the data, after which `other` got a larger token. */
function lostTo({ faults, settings }, hold, other) {
  if (hold.token >= other.token) return false;
  const from = Math.max(hold.believedFrom, other.believedFrom);
  const to = Math.min(hold.believedTo, other.believedTo);
  return faults.some(
    (fault) =>
      fault.losesData &&
      hold.ownerFrom <= (fault.cleanAt ?? fault.to) &&
      from >= fault.from &&
      to <= (fault.cleanAt ?? fault.to) + settings.leaseMs,
  );
}

function describe({ settings }, all) {
  const newcomer = all.at(-1);
  const who = all.map(({ id, mode, token }) => `${id} (${mode}, token ${token})`).join(', ');
  const ms = Math.min(...all.map(({ believedTo }) => believedTo)) - newcomer.believedFrom;
  return `"${newcomer.key}": ${who} believed in their locks together for ${ms.toFixed(1)} ms, at ${(newcomer.believedFrom - settings.at).toFixed(0)} ms`;
}
