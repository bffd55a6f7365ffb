import type { Lock } from '../../../libs/distributed-lock/src/lock/lock.js';
import type { LockLostError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { Asking, ClaimPlan } from '../plan/plan.js';
import { listenToLoss } from './abort-listener.js';
import { settle } from './call-records.js';
import { claimPlanOf } from './claims.js';
import { noteService, serviceIn, serviceOf, type Caller } from './caller.js';
import { leaseLeft } from './extensions.js';
import type { CallRecord, HoldRecord } from './history.js';
import { keyOf, nameOf } from './names.js';
import { sampleOf } from './sample.js';
import type { Actor, Held, Stage } from './stage.js';
import { takersOf } from './takeovers.js';

export function recordHold(
  caller: Caller,
  asking: Asking,
  lock: Lock,
  call: CallRecord,
  outer: readonly Held[],
): Held {
  const { stage, actor, label } = caller;
  settle(caller, call);
  const { history } = stage.parts;
  const { options, service } = asking;
  const keys = asking.keys.map((key) => nameOf(actor, key));
  const now = actor.process.trueNow;
  const ofService = outer.filter(({ lock: other }) => serviceOf(actor, service) === serviceIn(other));
  const shareOf = (key: string) =>
    ofService
      .flatMap((it) => it.records)
      .find((it) => it.key === key && (it.endedAt === undefined || goesOn(it, lock, actor)));
  const shared = keys.flatMap((key) => shareOf(key) ?? []);
  for (const share of shared) {
    if (options.holdAtLeastMs === undefined) continue;
    share.holdAtLeastMs = Math.max(share.holdAtLeastMs ?? 0, now - share.from + options.holdAtLeastMs);
    if (share.holdAtLeastMs > (share.leaseMs ?? Infinity)) share.isShortened = true;
  }
  const records = keys
    .filter((key) => !shareOf(key))
    .map((key): HoldRecord => ({
      call: label,
      process: actor.process.name,
      key,
      ...claimOf(claimPlanOf(asking, keyOf(actor, key))),
      ...(leaseLeft(outer, key, lock.tokenOf(keyOf(actor, key))) ??
        (options.leaseMs !== undefined && {
          leaseMs: options.leaseMs,
          fixedUntilOwn: actor.process.monotonic + options.leaseMs,
        })),
      // Of several keys each counts from its own grant.
      ...(options.holdAtLeastMs !== undefined &&
        keys.length === 1 && { holdAtLeastMs: options.holdAtLeastMs }),
      ...sharedFrom(ofService, key, lock, call),
      token: lock.tokenOf(keyOf(actor, key)),
      from: now,
      samples: [],
    }));
  const held: Held = {
    actor,
    lock,
    signal: lock.signal,
    records,
    shared,
    beside: [],
    ...(asking.isUnasked && { isUnasked: true }),
  };
  noteService(lock, serviceOf(actor, service));
  history.holds.push(...records);
  if (records.length === 0) return held;
  history.say(
    `${actor.process.name} call ${label} holds ${records.map(({ key, token }) => `${key} (${token})`).join(', ')} for ${Math.round(lock.validForMs)} ms`,
  );
  checkValid(caller, call, lock);
  if (lock.signal.aborted) {
    const isTakeover = (lock.signal.reason as LockLostError).reason === 'takeover';
    for (const record of records) Object.assign(record, { signalledAt: now }, isTakeover && { toldAt: now });
  }
  lock.signal.addEventListener('abort', () => {
    for (const record of held.records) record.signalledAt ??= actor.process.trueNow;
    const { reason } = lock.signal.reason as LockLostError;
    // It goes on for its grace. The event of its loss ends it.
    // While it is unsure whether its lease goes on, it believes in none.
    const isTold = held.records.some(({ toldAt }) => toldAt !== undefined);
    if (reason === 'takeover' && (lock.validForMs > 0 || isTold)) return;
    // What it had before a downgrade has ended by then.
    for (const record of held.records) if (record.endedAt === undefined) record.lostBy = reason;
    stage.end(held, 'lost');
  });
  if (!lock.signal.aborted || lock.validForMs > 0) stage.add(held);
  if (asking.onAbort) listenToLoss(held, asking.onAbort, serviceOf(actor, service), stage);
  return held;
}

/**
 * Who is let in may believe in its lock, unless its process stood still just then. One write may grant a lock and take it by force,
 * so that its caller is let in with a signal that has aborted. So may servers that come back with old data while a call waits for
 * the last of its keys.
 */
function checkValid({ stage, actor }: Caller, { call, askedAt, keys }: CallRecord, lock: Lock): void {
  const { history } = stage.parts;
  const { name, trueNow } = actor.process;
  const hasPaused = history.pauses.some(
    (it) => it.process === name && it.from <= trueNow && it.to >= askedAt,
  );
  const isForced = history.disturbances.some(
    ({ kind, key = '', at, to }) =>
      (kind === 'force' && keys.includes(key) && at >= askedAt) || (kind === 'forget' && to >= askedAt),
  );
  // While it waits for its next key, the grace of a takeover of this one may end.
  const isTaken =
    keys.length > 1 &&
    keys.some((key) => takersOf(history, key).some((it) => (it.settledAt ?? Infinity) >= askedAt));
  if (lock.validForMs > 0 || hasPaused || isForced || isTaken || isInLastMs(stage, actor, lock)) return;
  history.violate('belief', `call ${call} of ${name} is let in with a lock that is over`);
}

/**
 * The time of day counts in whole ms. So a lease that had less than that left when its owner let the caller in may be over when the caller
 * looks in the same turn, because a reply has come that was asked for at another fraction of a millisecond.
 */
function isInLastMs(stage: Stage, actor: Actor, lock: Lock): boolean {
  return lock.keys.some((key) => {
    const entry = stage.entryOf(actor, key, lock.tokenOf(key));
    return entry?.at === actor.process.trueNow && entry.validForMs > 0 && entry.validForMs < 1;
  });
}

/** From the request on readers may hold beside it. */
export function becomeShared({ stage }: Caller, held: Held): void {
  const sample = sampleOf(held.actor.process, held.lock);
  const now = sample.at;
  const records = held.records.map((record): HoldRecord => {
    if (record.endedAt !== undefined) return record;
    record.endedAt = now;
    record.end = 'downgraded';
    const { endedAt: _at, end: _end, holdAtLeastMs: _least, ...rest } = record;
    return { sharedFrom: record, ...rest, claim: 'shared', from: now, samples: [sample] };
  });
  stage.parts.history.holds.push(...records.filter((it) => it.endedAt === undefined));
  held.records = records;
}

function claimOf({ mode, permits, weight = 1 }: ClaimPlan): Pick<HoldRecord, 'claim' | 'weight' | 'permits'> {
  if (permits !== undefined) return { claim: 'permits', weight, permits };
  return { claim: mode === 'shared' ? 'shared' : 'exclusive', weight, permits: 1 };
}

/** The reader of its stream has left, and nested calls go on under its lock. */
function goesOn({ isLeft, key, token }: HoldRecord, lock: Lock, actor: Actor): boolean {
  return isLeft === true && lock.tokenOf(keyOf(actor, key)) === token;
}

/**
 * A call around this one is lost, and this one has a share of its hold: the call around it has a list, of which this key is still held, or
 * this one asked before the loss, and the process stood still until it was let in.
 */
function sharedFrom(
  outer: readonly Held[],
  key: string,
  lock: Lock,
  { askedAt }: CallRecord,
): Pick<HoldRecord, 'sharedFrom'> {
  for (const { actor, signal, lock: list, records } of outer) {
    const own = records.find((it) => it.key === key && it.token === lock.tokenOf(keyOf(actor, key)));
    if (own?.end !== 'lost') continue;
    const isOtherKey = list.keys.length > 1 && (signal.reason as LockLostError).key !== keyOf(actor, key);
    if (isOtherKey || askedAt <= (own.endedAt ?? Infinity)) return { sharedFrom: own.sharedFrom ?? own };
  }
  return {};
}
