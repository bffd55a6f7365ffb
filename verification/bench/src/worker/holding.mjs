import { setTimeout as pause } from 'node:timers/promises';
import { queryObjects } from 'node:v8';

/** @returns {number} bytes on the heap that are in use */
function heapBytes() {
  globalThis.gc();
  globalThis.gc();
  return process.memoryUsage().heapUsed;
}

/** The number of live timers, also those that do not keep the process alive. */
const Timeout = setTimeout(() => {}).constructor;
const timers = () => queryObjects(Timeout, { format: 'count' });

const held = [];

/**
 * Takes `count` locks, `atOnce` at a time, and keeps them.
 *
 * @param {import('../../contestants/contestant.d.mts').Contestant} contestant
 * @param {{ count: number, atOnce?: number, prefix: string }} details
 */
export async function hold(contestant, { count, atOnce = 100, prefix }) {
  const keep = (key) => (contestant.keep ? contestant.keep(key) : keepInside(contestant, key));
  const before = { bytes: heapBytes(), timers: timers() };
  for (let taken = 0; taken < count; taken += atOnce) {
    const more = Math.min(atOnce, count - taken);
    held.push(...(await Promise.all(Array.from({ length: more }, (_, i) => keep(`${prefix}${taken + i}`)))));
  }
  return { bytesEach: (heapBytes() - before.bytes) / count, timers: timers() - before.timers };
}

/** Holds a lock by work that never ends. */
function keepInside(contestant, key) {
  return new Promise((entered, failed) => {
    const kept = contestant.run(key, () => {
      entered({ kept });
      return NEVER;
    });
    kept.catch(failed);
  });
}

const NEVER = new Promise(() => {});

/**
 * Lets `count` callers wait for `keys` keys that others hold. The answer's bytes for each waiter do not include its
 * caller's promise.
 *
 * @param {import('../../contestants/contestant.d.mts').Contestant} contestant
 * @param {{ count: number, keys: number, prefix: string }} details
 */
export async function crowd(contestant, { count, keys, prefix }) {
  const promiseBytes = barePromiseBytes(count);
  const before = { bytes: heapBytes(), timers: timers() };
  for (let i = 0; i < count; i++) held.push(contestant.run(`${prefix}${i % keys}`, () => undefined));
  // On the same connection, so all requests have been answered by then.
  await contestant.run(`${prefix}free`, () => undefined);
  return { bytesEach: (heapBytes() - before.bytes) / count - promiseBytes, timers: timers() - before.timers };
}

/** @param {number} count */
function barePromiseBytes(count) {
  const before = heapBytes();
  const kept = [];
  for (let i = 0; i < count; i++) kept.push(new Promise(() => {}));
  const bytes = (heapBytes() - before) / kept.length;
  kept.length = 0;
  return bytes;
}

/** The work of the idle process for `ms`. @param {unknown} _ @param {{ ms: number }} details */
export async function idle(_, { ms }) {
  const before = process.cpuUsage();
  const startedAt = performance.now();
  await pause(ms);
  const { user, system } = process.cpuUsage(before);
  return { cpuUs: user + system, ms: performance.now() - startedAt };
}
