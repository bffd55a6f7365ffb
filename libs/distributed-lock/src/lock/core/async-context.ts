import { AsyncLocalStorage } from 'node:async_hooks';
import type { Hold } from './hold.js';
import type { Lock } from '../lock.js';

/** A lock that an async flow can have. Nested calls share its holds. Implemented by `HeldLock`. */
interface FlowLock extends Lock {
  readonly holds: readonly Hold[];
  isHeld(): boolean;
}

/**
 * One entry of the stack that an async context carries. `runHolding` and `runFor` push an entry: a lock of the flow, the run of a `@Locked`
 * handler to which the flow belongs, and the entry below (`outer`).
 */
class Frame {
  constructor(
    readonly lock: FlowLock | undefined,
    /**
     * Set in the flow of a `@Locked` handler of a request: the `LockedHandlerRun` while its interceptors run, then the `ExpectedNestCall`
     * with which Nest calls the handler.
     */
    readonly handlerRun: object | undefined,
    readonly outer: Flow,
    /** Identifies the request with which the flow began; `undefined` if nobody called `enterNewFlow` at its beginning. */
    readonly origin: FlowOrigin | undefined,
  ) {}
}

/**
 * An empty object that identifies the request with which a flow began. It has no reference to that request: every promise of the flow keeps
 * this object alive, and would keep the request in memory, too.
 */
export class FlowOrigin {
  declare private readonly brand: void;
}

/** The top of the stack of entries that an async context carries; `undefined` if it has none. Opaque outside of this file. */
export type Flow = Frame | undefined;

/**
 * The one AsyncLocalStorage of the process. It is on `globalThis`, because an application may load both the CommonJS and the ESM build of
 * this package, and a nested call through one build must find the locks that the other has acquired. There is only one for all purposes,
 * because on Node 20 each AsyncLocalStorage slows down every promise.
 */
const SHARED = Symbol.for('nestjs-distributed-lock/owner-context');
const shared = globalThis as { [SHARED]?: AsyncLocalStorage<Frame | undefined> };
const storage = (shared[SHARED] ??= new AsyncLocalStorage<Frame | undefined>());

const NO_HOLDS: readonly Hold[] = [];

/** Runs `work` as a flow that has `lock` in addition to the locks of the present flow. */
export function runHolding<L extends FlowLock, T>(lock: L, work: (lock: L) => T, handlerRun?: object): T {
  const around = storage.getStore();
  const frame = new Frame(lock, handlerRun ?? around?.handlerRun, innermostLive(around), around?.origin);
  return storage.run(frame, work, lock);
}

/** Runs `work` as a flow that has the locks of the present flow, and belongs to `handlerRun` instead of the present handler run. */
export function runFor<T>(handlerRun: object | undefined, work: () => T): T {
  return storage.run(
    new Frame(undefined, handlerRun, innermostLive(storage.getStore()), originOfFlow()),
    work,
  );
}

/**
 * Begins a flow without locks, which lasts for the rest of this turn of the event loop and for everything that starts in it. Call it only
 * from the first listener of an event that a server emits. If other code called it, its caller would lose its own locks for the rest of the
 * turn.
 */
export function enterNewFlow(): FlowOrigin {
  const origin = new FlowOrigin();
  storage.enterWith(new Frame(undefined, undefined, undefined, origin));
  return origin;
}

export function currentFlow(): Flow {
  return storage.getStore();
}

export function originOfFlow(): FlowOrigin | undefined {
  return storage.getStore()?.origin;
}

/** Runs `work` as a flow without locks that began with `origin`. */
export function runAsNewFlow<T>(origin: FlowOrigin | undefined, work: () => T): T {
  return storage.run(origin && new Frame(undefined, undefined, undefined, origin), work);
}

/**
 * Runs `work` as a flow that has only the locks which the present flow has taken since `entry`, an earlier result of `currentFlow()`. The
 * locks that it had by then are left out.
 */
export function runWithLocksSince<T>(entry: Flow, work: () => T): T {
  const outside = new Set<Flow>();
  for (let frame = entry; frame; frame = frame.outer) outside.add(frame);
  const inside = (frame: Flow): Flow =>
    !frame || outside.has(frame)
      ? undefined
      : new Frame(frame.lock, frame.handlerRun, inside(frame.outer), undefined);
  return storage.run(inside(storage.getStore()), work);
}

export function handlerRunOfFlow(): object | undefined {
  return storage.getStore()?.handlerRun;
}

/**
 * Finds the innermost live hold of `key`. A hold that was released or lost does not count.
 *
 * @param holds the holds to search; default: those of this flow
 */
export function findHold(scope: symbol, key: string, holds = holdsOfFlow(scope)): Hold | undefined {
  for (const hold of holds) if (hold.key === key && hold.isLive()) return hold;
  return undefined;
}

/** How many calls share `hold` around the present one, in this flow: 0 for the call that acquires it, 1 for a call nested in that one. */
export function depthOf(hold: Hold): number {
  for (let frame = storage.getStore(); frame; frame = frame.outer)
    if (frame.lock?.holds.includes(hold)) return frame.lock.depth + 1;
  return 0;
}

/** All holds of this flow, innermost first, including those that have ended. */
export function holdsOfFlow(scope: symbol): readonly Hold[] {
  let holds: Hold[] | undefined;
  for (let frame = storage.getStore(); frame; frame = frame.outer)
    for (const hold of frame.lock?.holds ?? NO_HOLDS) if (hold.scope === scope) (holds ??= []).push(hold);
  return holds ?? NO_HOLDS;
}

/** The locks of this flow that are still held, innermost first. */
export function locksOfFlow(): readonly FlowLock[] {
  const locks = new Set<FlowLock>();
  for (let frame = storage.getStore(); frame; frame = frame.outer)
    if (frame.lock?.isHeld()) locks.add(frame.lock);
  return [...locks];
}

/** The innermost lock of this flow that is still held, of `key` if it is given. */
export function findLock(scope: symbol, key?: string): Lock | undefined {
  const isAsked = (hold: Hold) => hold.scope === scope && (key === undefined || hold.key === key);
  for (let frame = storage.getStore(); frame; frame = frame.outer)
    if (frame.lock?.isHeld() && frame.lock.holds.some(isAsked)) return frame.lock;
  return undefined;
}

/**
 * Skips entries whose lock has ended, when a new entry is put on the stack. Otherwise a worker that starts its next round from inside its
 * last lock would make the stack grow without end.
 */
function innermostLive(flow: Flow): Flow {
  let frame = flow;
  while (frame && !frame.lock?.holds.some((hold) => !hold.isOver)) frame = frame.outer;
  return frame;
}
