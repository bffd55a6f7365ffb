import { describeGiven } from '../../options/describe-given.js';
import { LockConfigurationError } from '../../port/lock.errors.js';
import type { LockStoreFactory } from '../../port/lock-store.js';
import { systemChance } from '../../time/chance.js';
import { timeOfDay } from '../../time/clock.js';
import { DocumentStore } from '../core/document.store.js';
import { MemoryDocuments, MemoryRegister } from './memory-register.js';

/**
 * Locks in the memory of this process, one thread of it: the embedded default, and all that tests need.
 *
 * Excludes callers of this thread only: worker threads, as those of Piscina, share no memory, and so no locks. Registrations and
 * applications that are given the result of the same call share their locks. The results of two calls share nothing. Order,
 * tokens and expiry are those of Redis.
 *
 * @example
 * ```ts
 * import { DistributedLockModule, memoryStore } from 'nestjs-distributed-lock';
 *
 * DistributedLockModule.forRoot({ store: memoryStore() });
 * ```
 */
export function memoryStore(): LockStoreFactory;
export function memoryStore(given?: unknown): LockStoreFactory {
  if (given !== undefined) {
    throw new LockConfigurationError(
      `memoryStore takes nothing; it was given ${describeGiven(given)}. For locks in Redis write redisStore(…).`,
    );
  }
  let documents: MemoryDocuments | undefined;
  return {
    create(context) {
      const { clock, chance = systemChance } = context;
      const clientId = chance.uuid();
      documents ??= new MemoryDocuments(timeOfDay(clock));
      const register = new MemoryRegister(documents, clientId, clock);
      return new DocumentStore({ name: 'memory', clientId }, register, context);
    },
  };
}
