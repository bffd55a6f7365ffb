import type { EventHub } from './event-hub.js';

/** Members of a `LockService` for the rest of this package, which applications do not see. */
interface ServiceInternals {
  /** Proves that these are real internals. A mock of a service may return something for every property, but not `INTERNALS` here. */
  readonly brand: typeof INTERNALS;
  /** True while the application boots, until `open()`. */
  isBooting: boolean;
  /** Whether the application has booted. Nest calls no hook of a leader that a lazy module adds later, so such a leader is refused. */
  hasBooted: boolean;
  /** For the log, for tracing, and for other parts of this package that emit events, such as the election of a leader. */
  readonly events: EventHub;
}

/**
 * The name of the property that holds the internals of a service. A symbol, so that no editor offers it. A property instead of a WeakMap,
 * so that it is found through a Proxy of Nest, too.
 */
const INTERNALS = Symbol.for('nestjs-distributed-lock/service-internals');

export function putInternals(service: object, internals: Omit<ServiceInternals, 'brand'>): ServiceInternals {
  const value = Object.assign(internals, { brand: INTERNALS } as const);
  Object.defineProperty(service, INTERNALS, { value });
  return value;
}

/** Whether this is a service of this package, possibly behind a Proxy or from another copy of the package. False for a mock. */
export function isLockService(service: unknown): boolean {
  return (
    (service as { readonly [INTERNALS]?: Partial<ServiceInternals> } | undefined)?.[INTERNALS]?.brand ===
    INTERNALS
  );
}

export function internalsOf(service: object): ServiceInternals {
  return (service as { readonly [INTERNALS]: ServiceInternals })[INTERNALS];
}

/** Warns through the events of a service, as `EventHub.warnOnce` does. */
export function warnOnce(service: object, about: string, message: string): void {
  internalsOf(service).events.warnOnce(about, message);
}

/** Warns through the events of a service, as `EventHub.warn` does. */
export function warn(service: object, message: string): void {
  internalsOf(service).events.warn(message);
}
