import type { HoldRecord } from './history.js';
import type { Held } from './stage.js';

export function beginExtension(record: HoldRecord): void {
  const { fixedUntilOwn = Infinity, extending } = record;
  record.extending = extending
    ? { ...extending, count: extending.count + 1, isAlone: false }
    : { count: 1, latest: fixedUntilOwn, isAlone: true };
  record.fixedUntilOwn = Infinity;
  record.isExtended = true;
}

/**
 * One that is refused changes nothing. Without a reply (`unsure`) nobody knows whether the extension was executed. If the error of a call
 * for several keys names another key, nobody says whether this one got its reply (`untold`).
 */
export type ExtensionOutcome = 'extended' | 'refused' | 'unsure' | 'untold';

/**
 * @param until when the lease ends at the latest if the extension was executed
 * @returns whether no other one was under way meanwhile
 */
export function endExtension(record: HoldRecord, until: number, outcome: ExtensionOutcome): boolean {
  const { count, latest, isAlone } = record.extending as NonNullable<HoldRecord['extending']>;
  const later = outcome === 'refused' ? latest : Math.max(latest, until);
  if (outcome === 'unsure' || outcome === 'untold') record.isLengthUnsure = true;
  if (count > 1) record.extending = { count: count - 1, latest: later, isAlone };
  else {
    delete record.extending;
    // Without a reply the lease may have either length, and the shorter one counts.
    const alone = { extended: until, refused: latest, unsure: Math.min(latest, until), untold: later }[
      outcome
    ];
    record.fixedUntilOwn = isAlone ? alone : later;
  }
  return isAlone;
}

/** Of several keys one was lost, and a nested call shares what is left of another: its lease is that of the call around it. */
export function leaseLeft(
  outer: readonly Held[],
  key: string,
  token: number,
): Pick<HoldRecord, 'leaseMs' | 'fixedUntilOwn'> | undefined {
  const ended = outer.flatMap(({ records }) => records).find((it) => it.key === key && it.token === token);
  if (!ended) return undefined;
  const { leaseMs, fixedUntilOwn } = ended;
  return { ...(leaseMs !== undefined && { leaseMs }), ...(fixedUntilOwn !== undefined && { fixedUntilOwn }) };
}
