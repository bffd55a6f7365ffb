import {
  isLockError,
  LockConfigurationError,
  LockNotHeldError,
  LockShutdownError,
  LockStoreError,
} from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { Lock } from '../../../libs/distributed-lock/src/lock/lock.js';
import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import { leaseMargin, RECHECK_MS } from '../../../libs/distributed-lock/src/port/timing.js';
import type { PassStep } from '../plan/plan.js';
import type { Caller } from './caller.js';
import { settle, silentCall } from './call-records.js';
import type { HoldRecord } from './history.js';
import { recordHold } from './hold-records.js';
import { keyOf, prefixOf } from './names.js';
import type { Actor, Held } from './stage.js';
import { takersOf } from './takeovers.js';

/** Faults after which a server no longer knows that a lock was attached. The same baton may then be attached once more. */
const UNDOES_WRITES = ['forget', 'crash server', 'server event'];

/**
 * Detaches the lock of a call, and lets one or two other processes attach it. Waits until all of that is over.
 *
 * docs/guarantees.md, a detached lock: it keeps the key for its lease, one process has it, and that under the same token. The minimum hold
 * of its record stands for that until one is attached, and the attached hold shares the record, so that the rules of both judge everybody else.
 */
export async function passOn(caller: Caller, step: PassStep, held: Held): Promise<void> {
  const { stage, actor } = caller;
  const { lock, records } = held;
  const [record] = records;
  // A baton is of one prefix. A plan that was shrunk may have fewer processes.
  const heirs = stage.actors
    .filter((it) => step.to.includes(stage.placeOf(it)) && stage.latest(stage.placeOf(it)) === it)
    .filter((it) => prefixOf(it) === prefixOf(actor));
  if (!record || record.endedAt !== undefined || heirs.length === 0) return;
  const stopListening = stage.onReleased(actor, keyOf(actor, record.key), record.token, () => {
    const { trueNow } = actor.process;
    record.holdAtLeastMs = trueNow - record.from + step.holdAtLeastMs;
    // Nobody need attach it, and nothing but a recheck tells a waiter that it is over.
    record.lockedUntil = trueNow + 1.01 * step.holdAtLeastMs + RECHECK_MS;
    stage.end(held, 'released');
  });
  let baton: string;
  const detachedAt = actor.process.trueNow;
  try {
    baton = await lock.detach({ leaseMs: step.holdAtLeastMs });
  } catch (error) {
    // What was refused is held as before. After a release without an answer nobody knows how long the key stays locked.
    if (record.endedAt !== undefined) delete record.holdAtLeastMs;
    if (error instanceof LockConfigurationError || error instanceof LockStoreError) return;
    throw error;
  } finally {
    stopListening();
  }
  const pass: Pass = { caller, step, record, baton, detachedAt, attached: 0 };
  await Promise.all(heirs.map((heir, i) => attachLater(pass, heir, i)));
}

interface Pass {
  readonly caller: Caller;
  readonly step: PassStep;
  /** Of the hold that was detached. */
  readonly record: HoldRecord;
  readonly baton: string;
  /** True times. */
  readonly detachedAt: number;
  /** How many have attached it. */
  attached: number;
}

/** Resolves when the process has attached the lock, worked and released it, or could not, or has crashed. */
function attachLater(pass: Pass, heir: Actor, i: number): Promise<void> {
  const { stage } = pass.caller;
  const { kernel } = stage.parts;
  return new Promise((resolve) => {
    kernel.after(pass.step.afterMs, () => {
      const { process } = heir;
      if (process.state === 'dead') return resolve();
      process.onEnd(resolve);
      return process.receive(() => void attach(pass, heir, i).then(resolve));
    });
  });
}

async function attach(pass: Pass, heir: Actor, i: number): Promise<void> {
  const { caller, record, step } = pass;
  const { stage } = caller;
  const { history } = stage.parts;
  const { process } = heir;
  const label = `${caller.label}.heir ${i + 1}`;
  const key = keyOf(heir, record.key);
  const call = silentCall(heir, label, [record.key]);
  // From now on another process may have it, and may release it. An attach without an answer releases it, too.
  const { holdAtLeastMs = 0 } = record;
  record.holdAtLeastMs = Math.min(holdAtLeastMs, process.trueNow - record.from);
  history.say(`${process.name} call ${label} attaches ${record.key}`);
  let lock: Lock;
  try {
    lock = await (heir.services[0] as LockService).attach(pass.baton);
  } catch (error) {
    settle({ stage, actor: heir, label }, call, error);
    return checkRefused(pass, heir, error);
  }
  pass.attached += 1;
  record.lockedUntil = process.trueNow;
  if (pass.attached > 1 && !history.disturbances.some(({ kind }) => UNDOES_WRITES.includes(kind)))
    history.violate('exclusion', `call ${label} of ${process.name} attaches ${record.key}, as another had`);
  if (lock.fencingToken !== record.token)
    history.violate('tokens', `call ${label} of ${process.name} attaches ${record.key} under another token`);
  const { claim, permits, weight } = record;
  const asked = claim === 'permits' ? { permits, weight } : { mode: claim };
  const asking = {
    service: 0,
    how: 'acquire',
    keys: [key],
    claims: { [key]: asked },
    options: {},
    work: [],
  } as const;
  const held = recordHold({ stage, actor: heir, label }, asking, lock, call, []);
  for (const own of held.records) Object.assign(own, { sharedFrom: record.sharedFrom ?? record });
  await new Promise<void>((resolve) => process.setTimeout(step.workMs, resolve));
  if (stage.held.has(held)) stage.sample(held);
  stage.end(held, 'released');
  await lock.release();
}

/** The next one is refused when another has attached the lock. Otherwise it can be attached, unless something has happened. */
function checkRefused(
  { caller, step, record, detachedAt, attached }: Pass,
  heir: Actor,
  error: unknown,
): void {
  const { history, roundTripMs } = caller.stage.parts;
  const { name, trueNow } = heir.process;
  if (!isLockError(error)) {
    history.violate('errors', `${name} attaches ${record.key}, and gets ${String(error)}`);
    return;
  }
  const isTaken = takersOf(history, record.key).length > 0;
  const leftMs =
    0.99 * (step.holdAtLeastMs - leaseMargin(step.holdAtLeastMs)) - (trueNow - detachedAt) - roundTripMs;
  const isExcused = history.disturbances.length + history.pauses.length > 0 || isTaken || leftMs <= 0;
  const isClosed = error instanceof LockShutdownError || history.drains.some((it) => it.process === name);
  const isOther = attached > 0 || step.to.length > 1;
  if (isExcused || isClosed || (isOther && error instanceof LockNotHeldError)) return;
  history.violate(
    'loss',
    `${name} could not attach ${record.key}, and nothing had happened: ${error.message}`,
  );
}
