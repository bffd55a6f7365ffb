import type { DiscoveryService } from '@nestjs/core';
import { LockConfigurationError } from '../../port/lock.errors.js';
import type { LockService } from '../../lock/lock.service.js';
import { isAmong } from '../nest/is-among.js';

/**
 * Those of all applications of the process, also of another build of this package. An application whose boot fails tells
 * nobody of it: nothing keeps it here, and it is never asked for what is not its own.
 */
const SHARED = Symbol.for('nestjs-distributed-lock/registrations');
const shared = globalThis as { [SHARED]?: Set<WeakRef<Registration>> };
const known = (shared[SHARED] ??= new Set<WeakRef<Registration>>());

/** The service of one registration of the module, and the application that it stands in. */
export class Registration {
  /** From the end of a boot that has succeeded to the end of the application. */
  isRunning = false;

  constructor(
    readonly service: LockService,
    private readonly discovery: DiscoveryService,
  ) {
    known.add(new WeakRef(this));
  }

  /** True for a provider of its application, also one that a factory has made or that was given as a value. */
  owns(object: unknown): boolean {
    if (typeof object !== 'object' || object === null) return false;
    const instances: unknown[] = this.discovery.getProviders().map(({ instance }) => instance as unknown);
    return isAmong(instances, object);
  }
}

/**
 * The service for an object that Nest has not injected it into: that of its application, if it is a provider of one;
 * otherwise that of the only application that runs.
 *
 * @throws LockConfigurationError unless there is exactly one: a locked method never runs unlocked
 */
export function serviceOf(object: unknown, name: string, where: string): LockService {
  const registrations = all().filter(({ service }) => service.name === name);
  const owner = registrations.find((it) => it.owns(object));
  if (owner) return owner.service;
  const [running, another] = registrations.filter((it) => it.isRunning);
  if (running && !another) return running.service;
  const registration = name === 'default' ? 'forRoot(…)' : `forRoot({ name: '${name}', … })`;
  throw new LockConfigurationError(
    running
      ? `@Locked on ${where}: several applications of this process offer locks, and this object is a provider of none of them. Make it a provider.`
      : `@Locked on ${where}: no running application offers locks. Import DistributedLockModule.${registration}, and call it between the start and the end of the application.`,
  );
}

function all(): readonly Registration[] {
  return [...known].flatMap((ref) => {
    const registration = ref.deref();
    if (!registration) known.delete(ref);
    return registration ?? [];
  });
}
