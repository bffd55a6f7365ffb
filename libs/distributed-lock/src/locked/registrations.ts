// Which application's locks a plain call of a locked method uses. The module adds each of its registrations here, and each plain
// call asks for the service of its object.
import type { DiscoveryService } from '@nestjs/core';
import { importOf, injectedProperty, mockError } from '../distributed-lock.tokens.js';
import { ServiceInternals } from '../lock/events/service-internals.js';
import type { LockService } from '../lock/lock.service.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import type { LockPlan } from './lock-plan.js';

/**
 * All registrations of all applications in this process, shared with another copy of this package. Held by `WeakRef`, because
 * Nest calls no hook of an application whose boot has failed, so nothing would remove it.
 */
const SHARED = Symbol.for('nestjs-distributed-lock/registrations');
const shared = globalThis as { [SHARED]?: Set<WeakRef<Registration>> };
const registrationRefs = (shared[SHARED] ??= new Set<WeakRef<Registration>>());

/** One registration of the module in one application. */
export class Registration {
  /** True from the end of a successful boot to the shutdown. */
  isRunning = false;

  constructor(
    readonly service: LockService,
    private readonly discovery: DiscoveryService,
  ) {
    registrationRefs.add(new WeakRef(this));
  }

  /** True if the object is a provider of this application, be it an instance, a value or the result of a factory. */
  owns(object: unknown): boolean {
    if (typeof object !== 'object' || object === null) return false;
    const instances: unknown[] = this.discovery.getProviders().map(({ instance }) => instance as unknown);
    return isAmong(instances, object);
  }
}

/**
 * Finds the service for an object: the one that Nest has injected into it, or else that of the application to which the object
 * belongs, or else that of the only running application.
 *
 * @throws LockConfigurationError if there is no such application or more than one, because a locked method never runs unlocked
 */
export function serviceOf(self: unknown, { options: { name }, where }: LockPlan): LockService {
  const injected = (self as Readonly<Record<symbol, LockService | undefined>> | undefined)?.[
    injectedProperty(name)
  ];
  if (injected) {
    if (!ServiceInternals.areIn(injected)) throw mockError(name, `@Locked on ${where}`, 'is a mock');
    return injected;
  }
  const registrations = allRegistrations().filter(({ service }) => service.name === (name ?? 'default'));
  const owner = registrations.find((it) => it.owns(self));
  if (owner) return owner.service;
  const running = registrations.filter((it) => it.isRunning);
  const [only] = running;
  if (only && running.length === 1) return only.service;
  const options = name === undefined || name === 'default' ? '' : `{ name: '${name}' }`;
  throw new LockConfigurationError(
    `@Locked on ${where}: ${noServiceText(name, { registered: registrations.length, running: running.length })} Nest injects the locks after the constructor, so a provider calls the method in onModuleInit() or later. In a unit test without a module import TestLocks from nestjs-distributed-lock/testing, and write new TestLocks(${options}).injectInto(…) around the object.`,
  );
}

/** Why there is no service for an object, and what to do. */
function noServiceText(
  name: string | undefined,
  count: { readonly registered: number; readonly running: number },
): string {
  if (count.running > 1) {
    return 'several applications of this process offer locks, and this object is a provider of none of them. Make it a provider.';
  }
  return count.registered > 0
    ? 'no running application offers locks: the one that does has not started yet, or is closed, and this object is no provider of it. Make it a provider, or call it between the start and the end of the application.'
    : `no running application offers locks. Import ${importOf(name)}, and call it between the start and the end of the application.`;
}

function allRegistrations(): readonly Registration[] {
  return [...registrationRefs].flatMap((ref) => {
    const registration = ref.deref();
    if (!registration) registrationRefs.delete(ref);
    return registration ?? [];
  });
}

/**
 * True if one of `others` is `object`, a Proxy of it, or the target of it.
 *
 * Nest's `instanceDecorator` wraps providers, so that `this` of a method may be the Proxy or its target. The two differ
 * by `===`, but a property that is written through one is read through the other.
 */
export function isAmong(others: readonly unknown[], object: object): boolean {
  if (others.includes(object)) return true;
  const mark = Symbol('nestjs-distributed-lock/same-object');
  if (!Reflect.defineProperty(object, mark, { value: true, configurable: true })) return false;
  try {
    return others.some((other) => has(other, mark));
  } finally {
    Reflect.deleteProperty(object, mark);
  }
}

function has(object: unknown, mark: symbol): boolean {
  if (typeof object !== 'object' || object === null) return false;
  try {
    return Object.hasOwn(object, mark);
  } catch {
    // Some Proxies throw here, such as those that only work during a request.
    return false;
  }
}
