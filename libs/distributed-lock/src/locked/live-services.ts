import { LockConfigurationError } from '../lock/lock.errors.js';
import type { LockService } from '../lock/lock.service.js';

/** The services of all live applications of the process, also those of another build of this package. */
const SHARED = Symbol.for('nestjs-distributed-lock/live-services');
const shared = globalThis as { [SHARED]?: Set<LockService> };
const live = (shared[SHARED] ??= new Set<LockService>());

export function enterLive(service: LockService): void {
  live.add(service);
}

export function leaveLive(service: LockService): void {
  live.delete(service);
}

/**
 * The service for an object that Nest has not built. It fails closed: a locked method never runs unlocked.
 *
 * @throws LockConfigurationError unless exactly one live application has a registration of this name
 */
export function liveService(name: string, where: string): LockService {
  const [service, another] = [...live].filter((candidate) => candidate.name === name);
  if (service && !another) return service;
  const registration = name === 'default' ? 'forRoot(…)' : `forRoot({ name: '${name}', … })`;
  throw new LockConfigurationError(
    service
      ? `@Locked on ${where}: several applications of this process offer locks, and Nest did not build this object. Make its class a provider.`
      : `@Locked on ${where}: no running application offers locks. Import DistributedLockModule.${registration}, and call it between the start and the end of the application.`,
  );
}
