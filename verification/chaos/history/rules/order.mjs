import { COMMAND_MS } from '../../constants.mjs';

/** A caller that asks this long after another has certainly joined the queue behind it. */
const CERTAINLY_MS = COMMAND_MS;

/** Callers that ask for strict order get it, across processes, while nothing disturbs. */
export function order({ calls, faults, apps }) {
  const findings = [];
  const isCalm = (from, to) =>
    !faults.some((fault) => fault.from <= to && from <= fault.to + fault.recoverMs) &&
    ![...apps.values()].some(({ pauses }) => pauses.some((pause) => pause.from <= to && from <= pause.to));
  const lined = calls.filter(({ fair, waitMs, enteredAt }) => fair && waitMs > 0 && enteredAt !== undefined);
  for (const first of lined) {
    const overtaker = lined.find(
      ({ key, askedAt, enteredAt }) =>
        key === first.key && askedAt > first.askedAt + CERTAINLY_MS && enteredAt < first.enteredAt,
    );
    if (overtaker && isCalm(first.askedAt, first.enteredAt))
      findings.push(
        `"${first.key}": ${first.id} asked for its place in order and was overtaken by ${overtaker.id}`,
      );
  }
  return findings;
}
