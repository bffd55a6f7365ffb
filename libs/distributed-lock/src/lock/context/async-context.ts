import { AsyncLocalStorage } from 'node:async_hooks';
import type { Hold } from './hold.js';
import type { Lock } from '../lock.js';

/** A lock that a flow can have: its holds are what nested calls share. */
export interface FlowLock extends Lock {
  readonly holds: readonly Hold[];
  readonly isHeld: boolean;
  find(isIt: (hold: Hold) => boolean): Hold | undefined;
}

/** What the present async flow holds and what it runs for: innermost first. */
class Frame {
  constructor(
    readonly lock: FlowLock | undefined,
    /** What a caller of this module wants to find again: an activation of a handler. */
    readonly activation: object | undefined,
    readonly outer = innermostLive(),
  ) {}
}

/**
 * One for the process, on `globalThis`: an application may load both builds of this package, and a flow that starts in
 * one must be found by the other. One for all purposes, since every promise of the process pays for each.
 */
const SHARED = Symbol.for('nestjs-distributed-lock/owner-context');
const shared = globalThis as { [SHARED]?: AsyncLocalStorage<Frame | undefined> };
const storage = (shared[SHARED] ??= new AsyncLocalStorage<Frame | undefined>());

/** Runs `work` as a flow that has `lock` on top of what the present flow has. */
export function runHolding<T>(lock: FlowLock, work: () => T, activation = activationOfFlow()): T {
  return storage.run(new Frame(lock, activation), work);
}

/** Runs `work` as a flow that holds what the present flow holds, and runs for `activation` alone. */
export function runFor<T>(activation: object | undefined, work: () => T): T {
  return storage.run(new Frame(undefined, activation), work);
}

/** A flow may start its next run from within its lock, for years: what is over must not be kept by what follows. */
function innermostLive(): Frame | undefined {
  let frame = storage.getStore();
  while (frame && !frame.lock?.find((hold) => hold.isLive)) frame = frame.outer;
  return frame;
}

export function activationOfFlow(): object | undefined {
  return storage.getStore()?.activation;
}

/** The innermost live hold of `key` in this flow. A hold that was released or lost is dead: it is not found. */
export function findHold(scope: symbol, key: string): Hold | undefined {
  for (let frame = storage.getStore(); frame; frame = frame.outer) {
    const hold = frame.lock?.find((h) => h.scope === scope && h.key === key && h.isLive);
    if (hold) return hold;
  }
  return undefined;
}

/** All that this flow holds, innermost first. */
export function holdsOfFlow(scope: symbol): Hold[] {
  const holds: Hold[] = [];
  for (let frame = storage.getStore(); frame; frame = frame.outer) {
    for (const hold of frame.lock?.holds ?? []) if (hold.scope === scope) holds.push(hold);
  }
  return holds;
}

/** The innermost lock of this flow that is still held, of `key` if one is named. */
export function findLock(scope: symbol, key?: string): Lock | undefined {
  for (let frame = storage.getStore(); frame; frame = frame.outer) {
    const { lock } = frame;
    const isIt = (hold: Hold) => hold.scope === scope && (key === undefined || hold.key === key);
    if (lock?.isHeld && lock.find(isIt)) return lock;
  }
  return undefined;
}
