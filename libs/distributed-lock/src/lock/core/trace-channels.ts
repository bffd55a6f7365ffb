// Publishes locks on tracing channels of node:diagnostics_channel. Tracing tools subscribe to these without importing this library.
//
//   acquire   start, end                  a call asks for its keys
//             asyncStart, asyncEnd        it has its lock, or `error` came before: it ended without one
//   hold      start, end                  the call has its lock, and its work begins
//             asyncStart, asyncEnd        it has released, or `error` came before: the lock was lost
import { type TracingChannel, tracingChannel } from 'node:diagnostics_channel';
import type { Lock } from '../lock.js';
import type { HeldLock } from './held-lock.js';

/** Describes the call, in both messages. One object belongs to one operation, so a subscriber may keep its own data in it. */
interface TracedCall {
  /** The name of the registration; `default` for the one without a name. */
  readonly registration: string;
  /** The key; if the call gave several, the first one. */
  readonly key: string;
  /** All keys, in the order in which the call gave them. */
  readonly keys: readonly string[];
  readonly mode: Lock['mode'];
  /** The method with `@Locked`, the option `site`, or the line that called `acquire`, as far as it is known. */
  readonly site: string | undefined;
}

/**
 * The message of the tracing channel `nestjs-distributed-lock:acquire`: a call waits for its lock, from its request until it has the lock or
 * ended without it. Times are in ms.
 */
export interface LockAcquireMessage extends TracedCall {
  /** How long the call has waited, from `asyncStart` and `error` on. */
  waitedMs?: number;
  /** As `lock.owner`, after the grant. */
  owner?: string;
  /** After the grant of one key. */
  fencingToken?: number;
  /** Why the call ended without its lock. With the code `LOCK_WAIT_TIMEOUT` and a `waitMs` of 0 the key was not free for a call that does not wait. */
  error?: unknown;
}

/**
 * The message of the tracing channel `nestjs-distributed-lock:hold`: a call has its lock, from the grant until it has released or lost the
 * lock. Times are in ms.
 */
export interface LockHoldMessage extends TracedCall {
  /** As `lock.owner`. */
  readonly owner: string;
  /** Absent for several keys. */
  readonly fencingToken?: number;
  /** How long the call has held its lock, from `asyncStart` and `error` on. */
  heldMs?: number;
  /** A `LockLostError` if the lock was lost before its release. An error of the work is not one of the lock, and is not here. */
  error?: unknown;
}

const ACQUIRE = tracingChannel<unknown, LockAcquireMessage>('nestjs-distributed-lock:acquire');
const HOLD = tracingChannel<unknown, LockHoldMessage>('nestjs-distributed-lock:hold');

/** Whether anybody subscribes. If not, a call creates nothing for the channels. */
export function isTraced(): boolean {
  return isHeard(ACQUIRE) || isHeard(HOLD);
}

/** As `TracingChannel.hasSubscribers`, which not every runtime has. */
function isHeard<M extends object>({ start, end, asyncStart, asyncEnd, error }: TracingChannel<unknown, M>) {
  return (
    start.hasSubscribers ||
    asyncEnd.hasSubscribers ||
    error.hasSubscribers ||
    end.hasSubscribers ||
    asyncStart.hasSubscribers
  );
}

/**
 * Calls `acquire` and publishes the wait. The lock that it returns publishes its hold, which begins at the first `lock.trace.run(…)`.
 */
export async function traceCall(
  call: TracedCall,
  now: () => number,
  acquire: () => Promise<HeldLock>,
): Promise<HeldLock> {
  const message: LockAcquireMessage = { ...call };
  const startedAt = now();
  try {
    const lock = await begin(ACQUIRE, message, acquire);
    const grant = grantOf(lock);
    settle(ACQUIRE, message, { ...grant, waitedMs: now() - startedAt });
    if (isHeard(HOLD)) lock.trace = new HoldTrace(lock, { ...call, ...grant }, now);
    return lock;
  } catch (error) {
    settle(ACQUIRE, message, { error, waitedMs: now() - startedAt });
    throw error;
  }
}

function grantOf(lock: HeldLock): Pick<LockHoldMessage, 'owner' | 'fencingToken'> {
  const { owner, keys } = lock;
  return keys.length === 1 ? { owner, fencingToken: lock.fencingToken } : { owner };
}

/** Publishes the hold of one lock. */
export class HoldTrace {
  /** granted → held, when the work begins → ended, when the lock is released or lost. From granted to ended nothing is published. */
  private state: 'granted' | 'held' | 'ended' = 'granted';
  private readonly grantedAt: number;
  private readonly stopListening: () => void;

  constructor(
    lock: HeldLock,
    private readonly message: LockHoldMessage,
    private readonly now: () => number,
  ) {
    this.grantedAt = now();
    this.stopListening = lock.onLoss((error) => this.end({ error }));
  }

  /** Runs `work`. The first time, publishes that the hold begins, and `work` gets the stores that subscribers have bound to it. */
  run<T>(work: () => T): T {
    if (this.state !== 'granted') return work();
    this.state = 'held';
    return begin(HOLD, this.message, work);
  }

  /** Publishes the end of the hold, unless it has ended already. */
  end(outcome: { readonly error?: Error } = {}): void {
    const { state } = this;
    this.state = 'ended';
    this.stopListening();
    if (state === 'held') settle(HOLD, this.message, { ...outcome, heldMs: this.now() - this.grantedAt });
  }
}

/** Publishes that an operation begins, and runs `work`, the part of it in this turn of the event loop. */
function begin<M extends object, T>(
  { start, end }: TracingChannel<unknown, M>,
  message: M,
  work: () => T,
): T {
  try {
    return start.runStores(message, work);
  } finally {
    end.publish(message);
  }
}

function settle<M extends object>(
  { error, asyncStart, asyncEnd }: TracingChannel<unknown, M>,
  message: M,
  outcome: Partial<M>,
): void {
  Object.assign(message, outcome);
  if ('error' in outcome) error.publish(message);
  asyncStart.publish(message);
  asyncEnd.publish(message);
}
