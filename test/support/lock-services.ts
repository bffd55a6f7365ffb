import { LockService, type LockServiceOptions, type LockStoreFactory } from 'nestjs-distributed-lock';
import { redisStore, type RedisStoreOptions, type RedisTarget } from 'nestjs-distributed-lock/redis';

export type ServiceOptions = Omit<Partial<LockServiceOptions>, 'store'> & RedisStoreOptions;

const opened: LockService[] = [];

/** A service of its own on Redis, as another process would have it; without a grace, so that it closes at once. */
export function openService(
  target: RedisTarget,
  {
    commandTimeoutMs = 500,
    minReplicaAcks,
    replicaTimeoutMs,
    restartGuardMs,
    sharedTokens,
    ...options
  }: ServiceOptions = {},
): LockService {
  const store = redisStore(target, {
    commandTimeoutMs,
    minReplicaAcks,
    replicaTimeoutMs,
    restartGuardMs,
    sharedTokens,
  });
  return openServiceOn(store, options);
}

/** The same on any store. Without a name, which its process would tell the store when it has held for a second. */
export function openServiceOn(
  store: LockStoreFactory,
  options: Omit<Partial<LockServiceOptions>, 'store'> = {},
): LockService {
  const service = new LockService({ shutdownGraceMs: 0, application: false, ...options, store });
  service.open();
  opened.push(service);
  return service;
}

/** Closes all that were opened since the last time. */
export async function closeServices(): Promise<void> {
  await Promise.all(opened.splice(0).map((service) => service.close()));
}

export async function elapsed(promise: Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await promise;
  return performance.now() - startedAt;
}

/** When the promise settles: what it rejects with, or a complaint that it did not. */
export function failureOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    (value) => new Error(`It was expected to fail, and gave ${String(value)}.`),
    (error: unknown) => error,
  );
}

/** Resolves by the event alone: whoever asks a signal makes its lock compute whether it is still valid. */
export function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
