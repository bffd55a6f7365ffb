import {
  isLockError,
  LockNotHeldError,
  LockShutdownError,
} from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { CallOptions, Lock } from '../../../libs/distributed-lock/src/lock/lock.js';
import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import type { Actor, Stage } from './stage.js';

const PATIENCE_MS = 15_000;
/** Of the detached lock. It lasts while connections are broken and opened again. */
const DETACHED_MS = 20_000;
const CLAIMS: readonly CallOptions[] = [
  {},
  { mode: 'exclusive' },
  { mode: 'shared', fair: true },
  { permits: 3, weight: 2 },
];
/** What breaks, and when: all connections of the process that detaches, or of those that attach. */
const FAULTS = ['none', 'while it is detached', 'while it is attached', 'its process stops'] as const;

/**
 * docs/guarantees.md, a detached lock: two processes attach it at the same moment, and one of them has it, under the same token. A caller
 * that waits meanwhile gets the key when that one releases. Connections break just then, or the process that has detached stands still.
 */
export async function passedInCalm(stage: Stage, watchdogTimeoutMs: number): Promise<void> {
  const { kernel, history, dice: common } = stage.parts;
  const dice = common.fork('passed on');
  const living = stage.actors.filter(({ process }) => process.state === 'running');
  const [first, second, third = first] = living;
  if (!first || !second || !third) return;
  const claim = dice.pick(CLAIMS);
  const fault = dice.pick(FAULTS);
  const say = (rule: 'exclusion' | 'tokens' | 'hand-off' | 'errors', what: string): void =>
    history.violate(rule, `a lock that is passed on (${JSON.stringify(claim)}, fault: ${fault}): ${what}`);
  const breakSoon = ({ process }: Actor): void => {
    const { servers } = stage.parts.backend;
    kernel.at(kernel.now + dice.random() * stage.parts.roundTripMs, () =>
      servers.forEach((server) => stage.parts.network.reset(process, server)),
    );
  };
  const key = 'passed on';
  const held = ask(first, (service) => service.acquire(key, { ...claim, waitMs: PATIENCE_MS }));
  await kernel.run(kernel.now + 2 * PATIENCE_MS, held.isOver);
  // A service that the plan has closed refuses.
  if (!held.value) return;
  const { fencingToken } = held.value;
  const rival = claim.permits === undefined ? ({ mode: 'exclusive' } as const) : claim;
  const waiter = ask(third, (service) => service.acquire(key, { ...rival, waitMs: Infinity }));
  await kernel.run(kernel.now + stage.parts.roundTripMs);
  const lock = held.value;
  if (fault === 'while it is detached') breakSoon(first);
  const detached = ask(first, () => lock.detach({ leaseMs: DETACHED_MS }));
  await kernel.run(kernel.now + PATIENCE_MS, detached.isOver);
  const baton = detached.value;
  if (baton === undefined) {
    // Sessions and quorums cannot do it. With a connection broken, the store may not have answered until the lease was over. A session
    // may be in doubt when the lock was granted.
    const isRefused = isLockError(detached.error, 'LOCK_STORE');
    const mayBeLost = fault === 'while it is detached' || stage.parts.hasSessions;
    const isLost = isLockError(detached.error, 'LOCK_LOST') && mayBeLost;
    if (!isRefused && !isLost) say('errors', `detach ends with ${String(detached.error)}`);
    first.process.receive(() => void lock.release());
    return release(stage, waiter);
  }
  if (fault === 'its process stops') first.process.stop(DETACHED_MS / 2);
  if (fault === 'while it is attached') [second, third].forEach(breakSoon);
  const attached = [second, third].map((actor) => ask(actor, (service) => service.attach(baton)));
  await kernel.run(kernel.now + PATIENCE_MS, () => attached.every(({ isOver }) => isOver()));
  if (waiter.value) say('exclusion', 'a caller that waits is let in');
  const passed = attached.flatMap(({ value }) => value ?? []);
  if (passed.length > 1) say('exclusion', 'two processes have attached it');
  for (const { error } of attached) {
    const isExpected = error instanceof LockNotHeldError || error instanceof LockShutdownError;
    if (error !== undefined && !isExpected) say('errors', `attach ends with ${String(error)}`);
  }
  if (passed.some((it) => it.fencingToken !== fencingToken)) say('tokens', 'it has another token');
  const isClosed = attached.some(({ error }) => error instanceof LockShutdownError);
  if (passed.length === 0 && !isClosed) say('errors', 'nobody could attach it');
  await kernel.run(kernel.now + 2 * watchdogTimeoutMs);
  if (passed.some(({ validForMs }) => validForMs <= 0)) say('errors', 'it is not renewed');
  if (passed.length > 0 && waiter.value) say('exclusion', 'a caller that waits is let in beside its holder');
  const again = ask(second, (service) => service.attach(baton));
  await kernel.run(kernel.now + PATIENCE_MS, again.isOver);
  if (again.value) say('exclusion', 'it is attached again while it is held');
  for (const { actor, value } of [...attached, again]) actor.process.receive(() => void value?.release());
  await release(stage, waiter);
  if (waiter.value && waiter.value.fencingToken <= fencingToken)
    say('tokens', 'the next token is not larger');
}

/** Waits until the caller has its lock, and releases it. */
async function release({ parts }: Stage, waiter: Asked<Lock>): Promise<void> {
  const { kernel, history } = parts;
  await kernel.run(kernel.now + DETACHED_MS + PATIENCE_MS, waiter.isOver);
  if (!waiter.isOver()) history.violate('hand-off', 'a lock that was passed on and released stays taken');
  waiter.actor.process.receive(() => void waiter.value?.release());
  await kernel.run(kernel.now + PATIENCE_MS);
}

interface Asked<T> {
  readonly actor: Actor;
  readonly value: T | undefined;
  readonly error: Error | undefined;
  readonly isOver: () => boolean;
}

/** Calls a service of a process, and remembers how that ends. */
function ask<T>(actor: Actor, call: (service: LockService) => Promise<T>): Asked<T> {
  const state = {
    actor,
    value: undefined as T | undefined,
    error: undefined as Error | undefined,
    isOver: () => state.value !== undefined || state.error !== undefined,
  };
  actor.process.receive(() => {
    const asked = call(actor.services[0] as LockService);
    asked.then(
      (value) => (state.value = value),
      (error: unknown) => (state.error = error as Error),
    );
  });
  return state;
}
