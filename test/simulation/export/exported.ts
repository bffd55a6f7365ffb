import { isUntoldForget, lastOldWriteAt } from '../history/taken.js';
import { earliestForceOf, endOf, takersOf } from '../history/takeovers.js';
import { askedSince } from '../history/asked-since.js';
import { hiddenSleeps } from '../history/hidden-sleep.js';
import type { History, HoldRecord, Pause, Violation } from '../history/history.js';
import { lostLeaseOf, type Loss } from '../history/loss.js';
import { grouped } from '../checker/grouped.js';
import { sharedHoldOf } from '../checker/shares.js';
import type { Plan } from '../plan/plan.js';

/** Servers count in whole ms. */
const SLACK_MS = 2;
/** A time that never comes. */
const NEVER = Number.MAX_SAFE_INTEGER;

/**
 * What happened to the locks of one history, for a judge that shares no code with the checker. All times are true times in µs of virtual
 * time, and a time that never comes is the largest integer of a double, 2^53 - 1. verification/porcupine reads it.
 */
export interface ExportedHistory {
  readonly store: string;
  readonly seed: string;
  /** How the holds of its only key were changed. */
  readonly damage?: string;
  readonly pauses: readonly ExportedPause[];
  readonly keys: readonly ExportedKey[];
}

/** A process does not run, or (`clock`, `rate`, `suspend`) what it knew of its validity is no longer true. */
export interface ExportedPause {
  readonly process: string;
  /** `hidden`: a sleep that the clocks of the process do not show, and the second after it. */
  readonly kind: Pause['kind'] | 'hidden';
  readonly from: number;
  readonly to: number;
}

export interface ExportedKey {
  readonly key: string;
  /** The rules that the checker says are broken. */
  readonly broken: readonly string[];
  readonly holds: readonly ExportedHold[];
  readonly losses: readonly ExportedLoss[];
  /** From then on servers that lost data, and whose clock is behind, may grant any tokens. */
  readonly fencedUntil?: number;
}

export interface ExportedHold {
  /** Nested calls that share what is left of a lost list have the name of the call that acquired it. */
  readonly call: string;
  readonly process: string;
  /** Of the store: one process's stay with the key, which callers of that process hand on to each other. */
  readonly owner?: string;
  readonly claim: HoldRecord['claim'];
  readonly weight: number;
  readonly permits: number;
  readonly token: number;
  /** When its call asked for the key. The first hold of an owner: when that owner asked, maybe for an earlier call. */
  readonly asked: number;
  /** When its caller was let in. */
  readonly from: number;
  /** When its work ended, or it was told of its loss, or crashed. */
  readonly ended: number;
  /** Each time it was asked: until when it then believed in its lock, or 0 if it did not. */
  readonly samples: readonly (readonly [at: number, until: number])[];
}

/** Something that may take the lock from its owner, who need not know it. It is executed between `from` and `to`, or never. */
export interface ExportedLoss {
  readonly kind: 'force' | 'takeover' | 'forget';
  readonly from: number;
  readonly to: number;
  /** Whom it takes the lock from. Without one: from whoever has it. */
  readonly owner?: string;
  /** The process and the call that take it over. They keep it. */
  readonly by?: readonly [process: string, call: string];
  /** The servers forget the tokens that they granted. */
  readonly forgetsTokens?: true;
}

export interface Judged {
  readonly history: History;
  readonly violations: readonly Violation[];
  /** Of a damaged copy, of which nothing but this key is exported. */
  readonly damaged?: { readonly damage: string; readonly key: string };
}

export function exported(
  { store, seed }: Pick<Plan, 'store' | 'seed'>,
  { history, violations, damaged }: Judged,
): ExportedHistory {
  const ofKey = [...grouped(history.holds, ({ key }) => [key])];
  const chosen = damaged ? ofKey.filter(([key]) => key === damaged.key) : ofKey;
  const keys = chosen.map(([key, holds]) => ({
    key,
    broken: [...new Set(violations.flatMap((it) => (it.key === key ? [it.rule] : [])))],
    holds: holds.map((hold) => exportedHold(hold, history)),
    losses: lossesOf(key, holds, history),
    ...fencedUntil(history),
  }));
  return { store, seed, ...(damaged && { damage: damaged.damage }), pauses: pausesOf(history), keys };
}

function exportedHold(hold: HoldRecord, history: History): ExportedHold {
  const { process, owner, claim, weight, permits, token, from, samples } = hold;
  return {
    call: sharedHoldOf(hold).call,
    process,
    ...(owner !== undefined && { owner }),
    claim,
    weight,
    permits,
    token,
    asked: micros(Math.min(askedAt(hold, history), from)),
    from: micros(from),
    ended: micros(hold.endedAt ?? history.endedAt),
    samples: samples.map(({ at, validForMs, until }) => [micros(at), validForMs > 0 ? micros(until) : 0]),
  };
}

function askedAt(hold: HoldRecord, history: History): number {
  const { call, process, key, owner, from } = hold;
  const first = history.holds.find((it) => it.key === key && it.owner === owner);
  if (owner === undefined || first === hold) return askedSince(history, hold);
  return history.calls.find((it) => it.call === call && it.process === process)?.askedAt ?? from;
}

function pausesOf(history: History): readonly ExportedPause[] {
  const processes = [...new Set(history.pauses.map(({ process }) => process))];
  const hidden = processes.flatMap((process) =>
    hiddenSleeps(history, process).map((it) => ({ ...it, kind: 'hidden' as const })),
  );
  return [...history.pauses, ...hidden].map(({ process, kind, from, to }) => ({
    process,
    kind,
    from: micros(from),
    to: micros(to),
  }));
}

function lossesOf(key: string, holds: readonly HoldRecord[], history: History): readonly ExportedLoss[] {
  const forces = history.disturbances.flatMap((it): readonly ExportedLoss[] => {
    if (it.kind !== 'force' || it.key !== key) return [];
    const { owner, at, executedBy = at } = it;
    return [{ kind: 'force', ...interval(at, executedBy), ...(owner !== undefined && { owner }) }];
  });
  const takeovers = takersOf(history, key).flatMap((taker): readonly ExportedLoss[] => {
    const [from, to] = [earliestForceOf(history, taker), endOf(taker)];
    return from > to ? [] : [{ kind: 'takeover', ...interval(from, to), by: [taker.process, taker.call] }];
  });
  const untold = history.disturbances
    .filter((it) => isUntoldForget(history, it))
    .map(({ at }): ExportedLoss => ({
      kind: 'forget',
      ...interval(at, lastOldWriteAt(history, at, key)),
      forgetsTokens: true,
    }));
  const told = (history.losses ?? []).flatMap((loss) => toldLosses(loss, holds));
  return [...forces, ...takeovers, ...untold, ...told];
}

/** Of servers that tell what they have lost. While they are guarded, they grant nothing of it. */
function toldLosses(loss: Loss, holds: readonly HoldRecord[]): readonly ExportedLoss[] {
  const leases = new Set(loss.isGuarded ? [] : holds.flatMap((hold) => lostLeaseOf(loss, hold) ?? []));
  return [...leases].map(({ owner, keptUntil, until }) => {
    const from = Math.max(loss.at, keptUntil) - SLACK_MS;
    return { kind: 'forget', ...interval(from, until + SLACK_MS), owner };
  });
}

function fencedUntil({ losses = [], disturbances }: History): Pick<ExportedKey, 'fencedUntil'> {
  const isSetBack = disturbances.some(({ kind }) => kind === 'server clock');
  const behind = losses.filter(({ isBehind }) => isBehind || isSetBack);
  return behind.length === 0 ? {} : { fencedUntil: micros(Math.min(...behind.map(({ at }) => at))) };
}

function interval(from: number, to: number): Pick<ExportedLoss, 'from' | 'to'> {
  return { from: micros(from), to: micros(to) };
}

function micros(ms: number): number {
  return Number.isFinite(ms) ? Math.round(1000 * ms) : NEVER;
}
