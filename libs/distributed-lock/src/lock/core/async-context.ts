import { AsyncLocalStorage } from 'node:async_hooks';
import type { HeldLock } from './held-lock.js';
import type { Hold } from './hold.js';

/** The incoming request that a flow handles, as far as the flow knows it. */
interface Handling {
  /**
   * Set in the flow of a `@Locked` handler of a request: the `LockedHandlerRun` while its interceptors run, then the `ExpectedNestCall`
   * with which Nest calls the handler.
   */
  readonly handlerRun?: object | undefined;
  /**
   * An empty object that identifies the request with which the flow began; `undefined` if nobody called `enterNewFlow` at its beginning. It
   * has no reference to that request: every promise of the flow keeps this object alive, and would keep the request in memory, too.
   */
  readonly origin?: object | undefined;
}

/**
 * An async flow, as a stack that its async context carries. An object of this class is one entry: a lock of the flow, the handler run, and
 * the entry below (`outer`). `runHolding` and `runFor` push an entry.
 */
export class Flow {
  readonly handlerRun: object | undefined;
  readonly origin: object | undefined;

  constructor(
    readonly lock: HeldLock | undefined,
    readonly outer: Flow | undefined,
    { handlerRun, origin }: Handling,
  ) {
    this.handlerRun = handlerRun;
    this.origin = origin;
  }

  /** The locks of this flow that are still held, innermost first. */
  get locks(): readonly HeldLock[] {
    const locks = new Set<HeldLock>();
    for (const { lock } of upFrom(this)) if (lock?.isHeld()) locks.add(lock);
    return [...locks];
  }

  /** The innermost lock of this flow that is still held, of `key` if it is given. */
  findLock(scope: symbol, key?: string): HeldLock | undefined {
    const isAsked = (hold: Hold) => hold.scope === scope && (key === undefined || hold.key === key);
    for (const { lock } of upFrom(this)) if (lock?.isHeld() && lock.holds.some(isAsked)) return lock;
    return undefined;
  }

  /** How many calls share `hold` around the present one: 0 for the call that acquires it, 1 for a call nested in that one. */
  depthOf(hold: Hold): number {
    for (const { lock } of upFrom(this)) if (lock?.holds.includes(hold)) return lock.depth + 1;
    return 0;
  }
}

function* upFrom(flow: Flow | undefined): Generator<Flow> {
  for (let frame = flow; frame; frame = frame.outer) yield frame;
}

/**
 * The one AsyncLocalStorage of the process. It is on `globalThis`, because an application may load both the CommonJS and the ESM build of
 * this package, and a nested call through one build must find the locks that the other has acquired. There is only one for all purposes,
 * because on Node 20 each AsyncLocalStorage slows down every promise.
 */
const SHARED = Symbol.for('nestjs-distributed-lock/owner-context');
const shared = globalThis as { [SHARED]?: AsyncLocalStorage<Flow | undefined> };
const storage = (shared[SHARED] ??= new AsyncLocalStorage<Flow | undefined>());

const NO_HOLDS: readonly Hold[] = [];
const NONE: Handling = {};

/** `undefined` outside of every lock, handler and request. */
export function currentFlow(): Flow | undefined {
  return storage.getStore();
}

/** Runs `work` as a flow that has `lock` in addition to the locks of the present flow. */
export function runHolding<T>(lock: HeldLock, work: (lock: HeldLock) => T, handlerRun?: object): T {
  const around = storage.getStore();
  const handling = handlerRun ? { handlerRun, origin: around?.origin } : (around ?? NONE);
  const flow = new Flow(lock, innermostLive(around), handling);
  const { trace } = lock;
  return trace ? trace.run(() => storage.run(flow, work, lock)) : storage.run(flow, work, lock);
}

/** Runs `work` as a flow that has the locks of the present flow, and belongs to `handlerRun` instead of the present handler run. */
export function runFor<T>(handlerRun: object | undefined, work: () => T): T {
  const around = storage.getStore();
  const handling = { handlerRun, origin: around?.origin };
  return storage.run(new Flow(undefined, innermostLive(around), handling), work);
}

/**
 * Begins a flow without locks, which lasts for the rest of this turn of the event loop and for everything that starts in it. Call it only
 * from the first listener of an event that a server emits. If other code called it, its caller would lose its own locks for the rest of the
 * turn.
 *
 * @returns the origin of the new flow
 */
export function enterNewFlow(): object {
  const origin = {};
  storage.enterWith(new Flow(undefined, undefined, { origin }));
  return origin;
}

/** Runs `work` as a flow without locks that began with `origin`. */
export function runAsNewFlow<T>(origin: object | undefined, work: () => T): T {
  return storage.run(origin && new Flow(undefined, undefined, { origin }), work);
}

/**
 * Runs `work` as a flow that has only the locks which the present flow has taken since `entry`, an earlier result of `currentFlow()`. The
 * locks that it had by then are left out.
 */
export function runWithLocksSince<T>(entry: Flow | undefined, work: () => T): T {
  const outside = new Set<Flow | undefined>(upFrom(entry));
  const inside = (flow: Flow | undefined): Flow | undefined =>
    !flow || outside.has(flow)
      ? undefined
      : new Flow(flow.lock, inside(flow.outer), { handlerRun: flow.handlerRun });
  return storage.run(inside(storage.getStore()), work);
}

/** All holds of this flow, innermost first, including those that have ended. */
export function holdsOfFlow(scope: symbol): readonly Hold[] {
  let holds: Hold[] | undefined;
  for (let flow = storage.getStore(); flow; flow = flow.outer)
    for (const hold of flow.lock?.holds ?? NO_HOLDS) if (hold.scope === scope) (holds ??= []).push(hold);
  return holds ?? NO_HOLDS;
}

/**
 * Finds the innermost live hold of `key`. A hold that was released or lost does not count.
 *
 * @param holds the holds to search; default: those of this flow
 */
export function findHold(scope: symbol, key: string, holds = holdsOfFlow(scope)): Hold | undefined {
  return holds.find((hold) => hold.key === key && hold.isLive());
}

/**
 * Skips entries whose lock has ended, when a new entry is put on the stack. Otherwise a worker that starts its next round from inside its
 * last lock would make the stack grow without end.
 */
function innermostLive(flow: Flow | undefined): Flow | undefined {
  let frame = flow;
  while (frame && !frame.lock?.holds.some((hold) => !hold.isOver)) frame = frame.outer;
  return frame;
}
