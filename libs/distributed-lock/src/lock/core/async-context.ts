import { AsyncLocalStorage } from 'node:async_hooks';
import type { Hold } from './hold.js';
import type { Lock } from '../lock.js';

/** A lock that an async flow can have. Nested calls share its holds. Implemented by `HeldLock`. */
interface FlowLock extends Lock {
  readonly holds: readonly Hold[];
  isHeld(): boolean;
}

/** The locks that an async flow has, innermost first, and the run of a `@Locked` handler that it belongs to. */
class Frame {
  constructor(
    readonly lock: FlowLock | undefined,
    /** The run of a `@Locked` handler: a `LockedHandlerRun`, or the `ExpectedNestCall` behind its interceptors. */
    readonly handlerRun: object | undefined,
    readonly outer: Flow,
    /** The request with which the flow began; `undefined` for a flow whose beginning nobody has marked. */
    readonly origin: FlowOrigin | undefined,
  ) {}
}

/** Stands for the beginning of a flow. Does not lead to the request, because promises of the flow lead here. */
export class FlowOrigin {
  declare private readonly brand: void;
}

/** What an async context has of locks. Opaque outside of this file. */
export type Flow = Frame | undefined;

/**
 * One for the process, on `globalThis`: an application may load both builds of this package, and a flow that starts in
 * one must be found by the other. One for all purposes, because on Node 20 each one slows down every promise.
 */
const SHARED = Symbol.for('nestjs-distributed-lock/owner-context');
const shared = globalThis as { [SHARED]?: AsyncLocalStorage<Frame | undefined> };
const storage = (shared[SHARED] ??= new AsyncLocalStorage<Frame | undefined>());

const NO_HOLDS: readonly Hold[] = [];

/** Runs `work` as a flow that has `lock` on top of the locks of the present flow. */
export function runHolding<L extends FlowLock, T>(lock: L, work: (lock: L) => T, handlerRun?: object): T {
  const around = storage.getStore();
  const frame = new Frame(lock, handlerRun ?? around?.handlerRun, innermostLive(around), around?.origin);
  return storage.run(frame, work, lock);
}

/** Runs `work` as a flow that has the locks of the present flow, and runs for `handlerRun` alone. */
export function runFor<T>(handlerRun: object | undefined, work: () => T): T {
  return storage.run(
    new Frame(undefined, handlerRun, innermostLive(storage.getStore()), originOfFlow()),
    work,
  );
}

/**
 * Begins a flow without locks: for the rest of this turn of the event loop, and for all that starts in it. Only for the first
 * listener of an event that a server emits.
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

/** Runs `work` as a flow that began with `origin` and has no lock. */
export function runAsNewFlow<T>(origin: FlowOrigin | undefined, work: () => T): T {
  return storage.run(origin && new Frame(undefined, undefined, undefined, origin), work);
}

/** Runs `work` as a flow that has the locks which the present flow has taken since it was `entry`. */
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
 * The innermost live hold of `key`. A hold that was released or lost is not found.
 *
 * @param holds those to search; default: those of this flow
 */
export function findHold(scope: symbol, key: string, holds = holdsOfFlow(scope)): Hold | undefined {
  for (const hold of holds) if (hold.key === key && hold.isLive()) return hold;
  return undefined;
}

/** 0 for a call that has acquired `hold`; for one that shares it with this flow, one more than for the call around it. */
export function depthOf(hold: Hold): number {
  for (let frame = storage.getStore(); frame; frame = frame.outer)
    if (frame.lock?.holds.includes(hold)) return frame.lock.depth + 1;
  return 0;
}

/** All holds of this flow, innermost first. */
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

/** The innermost lock of this flow that is still held, of `key` if one is named. */
export function findLock(scope: symbol, key?: string): Lock | undefined {
  const isAsked = (hold: Hold) => hold.scope === scope && (key === undefined || hold.key === key);
  for (let frame = storage.getStore(); frame; frame = frame.outer)
    if (frame.lock?.isHeld() && frame.lock.holds.some(isAsked)) return frame.lock;
  return undefined;
}

/** Skips frames without a live hold. Otherwise work that starts its next round under its lock would chain frames for ever. */
function innermostLive(flow: Flow): Flow {
  let frame = flow;
  while (frame && !frame.lock?.holds.some((hold) => !hold.isOver)) frame = frame.outer;
  return frame;
}
