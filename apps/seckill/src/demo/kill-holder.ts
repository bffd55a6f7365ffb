import { setTimeout as pause } from 'node:timers/promises';
import type { LockService } from 'nestjs-distributed-lock';
import type { InstancesRepository } from '../instances/instances.repository.js';
import type { Instance } from './instance.js';
import type { Kill, NextHolder } from './kill.js';

/** In ms: until then a command that a process sent before it was frozen, such as a release, has arrived. */
const SETTLE_MS = 20;
const LOOK_EVERY_MS = 2;
/** A session is prolonged every sixth of its length. On a busy machine once too late. */
const LEAST_OF_SESSION = 2 / 3;

export interface Hunt {
  readonly key: string;
  readonly locks: LockService;
  /** The instances as they describe themselves, and their processes. */
  readonly known: InstancesRepository;
  readonly running: readonly Instance[];
  /** Whether the store knows no more of a lease than its length, from the last time its holder prolonged its session. */
  readonly hasSessions: boolean;
  /** Longest time that a dead holder may keep others waiting. */
  readonly patienceMs: number;
}

/**
 * Kills the process that holds the lock, while it holds it.
 *
 * Between asking who holds a lock and killing that process, the lock may have gone on to another. So the suspect is
 * frozen first: if it still holds the lock then, it cannot give it back any more, and is killed; if not, it goes on.
 *
 * @returns `undefined` when `signal` aborts before a holder was caught
 */
export async function killHolder(hunt: Hunt, signal: AbortSignal): Promise<Kill | undefined> {
  const { key, locks, known, running } = hunt;
  let instances = await known.alive();
  while (!signal.aborted) {
    const owner = (await locks.inspect(key))?.holders[0];
    const suspect = instances.find(({ client }) => owner !== undefined && isOf(client, owner));
    const instance = running.find(({ url }) => url === suspect?.url);
    if (owner === undefined || suspect === undefined || instance === undefined) {
      await pause(LOOK_EVERY_MS);
      // An instance is known by its locks a moment after its first one.
      instances = await known.alive();
      continue;
    }
    instance.signal('SIGSTOP');
    await pause(SETTLE_MS);
    const readAt = performance.now();
    const caught = await locks.inspect(key).catch((error: unknown) => {
      // A frozen process would not end with the demo.
      instance.signal('SIGCONT');
      throw error;
    });
    if (caught?.holders[0] !== owner) {
      instance.signal('SIGCONT');
      continue;
    }
    instance.signal('SIGKILL');
    const leaseLeftMs = Math.floor(caught.remainingMs);
    return {
      instance: suspect.id,
      pid: instance.pid,
      leaseLeftMs,
      leastLeftMs: hunt.hasSessions ? Math.floor(LEAST_OF_SESSION * leaseLeftMs) : leaseLeftMs,
      waiting: caught.pending.filter((waiter) => !isOf(suspect.client, waiter)).length,
      next: nextHolder(owner, readAt, hunt),
    };
  }
  return undefined;
}

async function nextHolder(dead: string, since: number, hunt: Hunt): Promise<NextHolder> {
  const { key, locks, known, patienceMs } = hunt;
  while (performance.now() - since < patienceMs) {
    const owner = (await locks.inspect(key))?.holders[0];
    const afterMs = performance.now() - since;
    if (owner !== undefined && owner !== dead) {
      const instance = (await known.alive()).find(({ client }) => isOf(client, owner));
      return { instance: instance?.id, afterMs };
    }
    await pause(LOOK_EVERY_MS);
  }
  throw new Error(`nobody held "${key}" for ${patienceMs} ms after its holder was killed`);
}

function isOf(client: string | null, owner: string): boolean {
  return client !== null && owner.startsWith(`${client}:`);
}
