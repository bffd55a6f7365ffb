import { setTimeout as pause } from 'node:timers/promises';
import { WAIT_MS } from '../constants.mjs';
import { Random } from '../random.mjs';
import { section } from './section.mjs';
import { WORKLOADS } from './workloads/index.mjs';

/** A refused caller waits this long before it asks again. */
const AFTER_FAILURE_MS = 100;
/** Share of the calls whose work fails when it is done. */
const MISHAP_RATE = 0.05;
/** Length of a usual section. */
const SHORT_MS = 20;

/**
 * Callers that ask for locks, one call after the other, until they are stopped.
 *
 * Each call goes on record when it asks and when it is answered; what happens inside is recorded by its section.
 */
export class Traffic {
  #isOver = false;
  #calls = 0;
  #callers = [];

  /** @param {{ app: string, seed: number, keys: string[], traffic: any, service: import('nestjs-distributed-lock').LockService, witness: any, record: any }} context */
  constructor(context) {
    this.context = context;
  }

  start() {
    const { app, seed, keys, traffic } = this.context;
    const workload = WORKLOADS[traffic.workload ?? 'exclusive'];
    for (const key of keys) {
      for (let i = 0; i < (traffic.callersPerKey ?? 2); i++) {
        const random = new Random(`${seed} ${app} ${key} ${i}`);
        this.#callers.push(this.#caller(key, random, workload));
      }
    }
  }

  /** Resolves when every call is answered. */
  async stop() {
    this.#isOver = true;
    await Promise.all(this.#callers);
  }

  async #caller(key, random, workload) {
    const { keys, traffic } = this.context;
    const about = { key, keys, shortMs: traffic.shortMs ?? SHORT_MS };
    while (!this.#isOver) {
      const isServed = await this.#call(random, workload(random, about));
      if (!isServed) await pause(AFTER_FAILURE_MS);
      if (traffic.pauseMs) await pause(random.between(0, traffic.pauseMs));
    }
  }

  /** @returns whether it was let in, or did not want to be any more */
  async #call(random, { keys, mode, options, lengthMs }) {
    const { app, seed, traffic, record } = this.context;
    const number = ++this.#calls;
    const waitMs = random.chance(0.05) ? 0 : (traffic.waitMs ?? WAIT_MS);
    const abortAfterMs = random.chance(traffic.abortRate ?? 0)
      ? Math.round(random.between(0, 100))
      : undefined;
    const signal = abortAfterMs === undefined ? undefined : AbortSignal.timeout(abortAfterMs);
    const via = random.pick(['withLock', 'withLock', 'withLock', 'acquire', 'nested']);
    // Each key is a call of its own on record.
    const calls = keys.map((key, i) => ({ call: `${app}.${number}${i > 0 ? `+${i}` : ''}`, key }));
    const each = (type, details) => calls.forEach((names) => record(type, { ...names, ...details }));
    // Of its own, so that a seed means the same traffic as before.
    const fails = new Random(`${seed} ${app}.${number} fails`).chance(MISHAP_RATE);
    const work = async (lock) => {
      await Promise.all(calls.map((names) => section(lock, { ...this.context, ...names, lengthMs, mode })));
      if (fails) throw Object.assign(new Error('the work failed'), { code: 'mishap' });
    };
    const { permits, weight, fair } = options;
    each('asked', { mode, via, permits, weight, fair, waitMs: Math.min(waitMs, abortAfterMs ?? Infinity) });
    try {
      await this.#take[via](keys, { ...options, waitMs, signal }, work);
      each('settled', { outcome: 'done' });
      return true;
    } catch (error) {
      const wasAborted = error === signal?.reason;
      const outcome = wasAborted ? 'aborted' : (error.code ?? error.name);
      each('settled', { outcome, reason: error.reason, detail: error.message });
      return wasAborted || outcome === 'mishap';
    }
  }

  /** The ways in which a lock can be taken. */
  #take = {
    withLock: (keys, options, work) => this.context.service.withLock(keys, options, work),
    nested: (keys, options, work) => {
      const { service } = this.context;
      return service.withLock(keys, options, () => service.withLock(keys, inner(options), work));
    },
    acquire: async (keys, options, work) => {
      const lock = await this.context.service.acquire(keys, options);
      try {
        await lock.run(() => work(lock));
      } finally {
        await lock.release();
      }
    },
  };
}

/** The options that a nested call repeats: the kind of lock. Its flow holds the key. If the lock was lost, the call does not wait. */
function inner({ mode, permits, weight }) {
  return { waitMs: 0, ...(mode && { mode }), ...(permits && { permits, weight }) };
}
