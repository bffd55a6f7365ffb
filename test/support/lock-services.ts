import {
  LockService,
  type Lock,
  type LockServiceOptions,
  type LockStoreFactory,
} from 'nestjs-distributed-lock';
import { redisStore, type RedisStoreOptions, type RedisTarget } from 'nestjs-distributed-lock/redis';
import { until } from '#until';
import { PATIENT } from './patient.js';

export type ServiceOptions = Omit<Partial<LockServiceOptions>, 'store'> & RedisStoreOptions;

const opened: LockService[] = [];

/** As long as a command may take at most under this watchdog, where a claim is not about that: a busy machine is slow. */
function patient(watchdogTimeoutMs = 30_000): number {
  return Math.min(PATIENT.commandTimeoutMs, Math.floor(watchdogTimeoutMs / 3));
}

/** A service of its own on Redis, as another process would have it; without a grace, so that it closes at once. */
export function openService(
  target: RedisTarget,
  {
    minReplicaAcks,
    replicaTimeoutMs,
    restartGuardMs,
    sharedTokens,
    commandTimeoutMs,
    ...options
  }: ServiceOptions = {},
): LockService {
  const store = redisStore(target, {
    commandTimeoutMs: commandTimeoutMs ?? patient(options.watchdogTimeoutMs),
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

/** `holder` has the lock of the key, and `other` waits for it in the store. */
export async function holdAndWait(
  holder: LockService,
  other: LockService,
  key: string,
): Promise<{ readonly lock: Lock; readonly waiting: Promise<Lock> }> {
  const lock = await holder.acquire(key, { waitMs: 10_000 });
  const waiting = other.acquire(key, { waitMs: 10_000 });
  await until(async () => (await holder.inspect(key))?.pending.length === 1);
  return { lock, waiting };
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
