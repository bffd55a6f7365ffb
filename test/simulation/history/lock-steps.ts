import {
  isLockError,
  LockConfigurationError,
  LockShutdownError,
  LockStoreError,
} from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import { leaseMargin } from '../../../libs/distributed-lock/src/port/timing.js';
import type { Asking, ExtendStep } from '../plan/plan.js';
import { isShared, serviceIn, serviceOf, type Caller } from './caller.js';
import { beginExtension, endExtension, type ExtensionOutcome } from './extensions.js';
import { isSleepHidden } from './hidden-sleep.js';
import type { HoldRecord } from './history.js';
import { keyOf, nameOf } from './names.js';
import type { Held } from './stage.js';
import { mayBeForcedOut, nowOf, takersOf } from './takeovers.js';

/**
 * The store names each holder that still believes in its lock once the answer is there. Of several servers some answer, and
 * those need not have the lock.
 */
export async function inspect({ stage }: Caller, { actor, lock, records }: Held): Promise<void> {
  const { history, backend } = stage.parts;
  const record = records.find(({ owner }) => owner !== undefined);
  const key = record ? keyOf(actor, record.key) : lock.key;
  const service = serviceIn(lock) as LockService;
  const snapshot = await service.inspect(key).catch((error: unknown) => {
    if (!(error instanceof LockStoreError || error instanceof LockShutdownError)) throw error;
    return undefined;
  });
  if (!record || snapshot === undefined || record.endedAt !== undefined || lock.validForMs <= 0) return;
  // What servers have lost, by force or by a crash, its holder believes in until it is told.
  const isDisturbed = history.disturbances.some(({ kind }) =>
    ['force', 'forget', 'crash server'].includes(kind),
  );
  if (mayBeForcedOut(history, record, nowOf(actor), Infinity)) return;
  if (isSleepHidden(history, actor.process.name, actor.process.trueNow)) return;
  if (isDisturbed || backend.servers.length > 1 || snapshot?.holders.includes(record.owner as string)) return;
  const names = snapshot?.holders.join(', ') ?? 'nobody';
  history.violate(
    'belief',
    `call ${record.call} of ${actor.process.name} believes in ${key}, and the store names ${names}`,
  );
}

/** The lock, its validity and the flow that it runs in say the same. */
export function checkAnswers(
  { stage, actor, label }: Caller,
  { lock, records, isLeft }: Held,
  { how, service, keys }: Asking,
): void {
  if (isLeft) return;
  const [key = '', ...others] = keys;
  const answers: [asked: string, isHeld: boolean][] = [
    ['lock.validForMs', lock.validForMs > 0],
    ['lock.assertHeld()', passes(() => lock.assertHeld())],
  ];
  // A flow may have one of several keys by another call.
  if (how !== 'unshared' && others.length === 0)
    answers.push(['assertHeld(key)', passes(() => serviceOf(actor, service).assertHeld(key))]);
  if (answers.every(([, isHeld]) => isHeld === answers[0]?.[1])) return;
  const call = records[0]?.call ?? label;
  const text = answers.map(([asked, isHeld]) => `${asked}: ${isHeld}`).join(', ');
  stage.parts.history.violate('belief', `call ${call} is told of ${key}: ${text}`);
}

/** docs/guarantees.md, fixed leases: once `extend` or `keepFor` resolves, the lease lasts for `ms`, and no longer. */
export async function extend(
  caller: Caller,
  { do: how, ms }: ExtendStep,
  held: Held,
  outer: readonly Held[],
): Promise<void> {
  const { stage, actor, label } = caller;
  const { process } = actor;
  const { lock } = held;
  const records = [held, ...outer]
    .filter((it) => it === held || isShared(it, held))
    .flatMap((it) => it.records)
    .filter((it) => it.leaseMs !== undefined || how === 'keep for')
    .filter((it) => lock.keys.includes(keyOf(actor, it.key)));
  const askedAt = process.monotonic;
  const trulyAskedAt = process.trueNow;
  const watched = records.filter(({ leaseMs }) => leaseMs === undefined);
  for (const record of records) beginExtension(record);
  for (const record of watched) record.leaseMs = ms;
  let outcome = 'unsure' as ExtensionOutcome;
  let unanswered: string | undefined;
  const extended = (how === 'extend' ? lock.extend(ms) : lock.keepFor(ms)).then(
    () => void (outcome = 'extended'),
    (error: unknown) => {
      if (error instanceof LockConfigurationError) outcome = 'refused';
      if (error instanceof LockStoreError) unanswered = error.key;
      throw error;
    },
  );
  await changing(caller, extended, held, outer);
  const now = process.monotonic;
  const outcomeOf = ({ key }: HoldRecord): ExtensionOutcome =>
    unanswered === undefined || unanswered === keyOf(actor, key) ? outcome : 'untold';
  // Readers of one process share a lease, which the watchdog goes on renewing.
  if (outcome === 'refused') for (const record of watched) delete record.leaseMs;
  const wasAlone = records.map((record) => endExtension(record, now + ms, outcomeOf(record))).every(Boolean);
  // With a session it lasts no longer than that, until the next renewal.
  const { history, hasSessions } = stage.parts;
  const hasPaused =
    history.pauses.some((it) => it.process === process.name && it.to >= trulyAskedAt) ||
    isSleepHidden(history, process.name, trulyAskedAt);
  // By both clocks of the machine, whose speeds differ by less than 1 %.
  const leastMs = ms - leaseMargin(ms) - 1.01 * (now - askedAt) - 2;
  // Who is told of a takeover has the rest of the grace, which may have begun before this call was let in.
  const isTakenOver = takersOf(history, nameOf(actor, lock.key)).length > 0;
  const isHeld = records.every(({ endedAt, isLengthUnsure }) => endedAt === undefined && !isLengthUnsure);
  if (outcome !== 'extended' || hasPaused || !isHeld || !wasAlone || hasSessions || isTakenOver) return;
  if (lock.keys.length > 1 || lock.validForMs >= leastMs) return;
  const text = `call ${label} of ${process.name} has extended ${lock.key} by ${ms} ms, and it is valid for ${Math.round(lock.validForMs)} ms`;
  history.violate('belief', text);
}

/** Until the reply only the shorter of both leases is believed in. */
export async function changing(
  caller: Caller,
  change: Promise<void>,
  held: Held,
  outer: readonly Held[],
): Promise<void> {
  sampleAll(caller, held, outer);
  try {
    await change;
  } catch (error) {
    // A nested call shares a hold that cannot be changed so. Without a reply the lock is held all the same.
    if (!(error instanceof LockConfigurationError || error instanceof LockStoreError)) throw error;
  } finally {
    sampleAll(caller, held, outer);
  }
}

export function sampleAll({ stage }: Caller, held: Held, outer: readonly Held[]): void {
  for (const each of [held, ...outer]) if (stage.held.has(each)) stage.sample(each);
}

function passes(asserts: () => unknown): boolean {
  try {
    asserts();
    return true;
  } catch (error) {
    if (!isLockError(error)) throw error;
    return false;
  }
}
