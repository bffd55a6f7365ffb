import { AsyncLocalStorage } from 'node:async_hooks';
import { type LockStoreFactory, memoryStore } from 'nestjs-distributed-lock';
import { quorumStore } from 'nestjs-distributed-lock/quorum';
import { redisStore } from 'nestjs-distributed-lock/redis';

/** What an application keeps for each of its requests. */
export interface Request {
  readonly name: string;
}

const requests = new AsyncLocalStorage<Request>();

/** Runs `work` as a part of the request of that name. */
export function inRequest<T>(name: string, work: () => T): T {
  return requests.run({ name }, work);
}

/** The name of the request that the present code runs for. */
export function requestNow(): string | undefined {
  return requests.getStore()?.name;
}

/** Every kind of store, opened by the first call. */
export const STORES: readonly (readonly [name: string, make: () => LockStoreFactory])[] = [
  ['memory', memoryStore],
  ['redis', () => redisStore(process.env['REDIS_URL'] as string)],
  ['quorum', () => quorumStore([memoryStore(), memoryStore(), memoryStore()])],
];
