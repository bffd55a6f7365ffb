import type { EventHub } from './event-hub.js';

/** The members of a `LockService` for the rest of this package, which applications do not see. */
interface ServiceInternals {
  /** The name of these internals. A mock answers any name with something of its own. */
  readonly brand: typeof INTERNALS;
  /** True in an application that boots, until `open()`. */
  isBooting: boolean;
  /** True in an application whose boot is over. */
  hasBooted: boolean;
  /** For the log, for tracing, and for parts of this package beside the service that emit, such as the election of a leader. */
  readonly events: EventHub;
}

/** No member of the class, so that no editor offers it. A property, so that it is found behind a Proxy of Nest, too. */
const INTERNALS = Symbol.for('nestjs-distributed-lock/service-internals');

export function putInternals(service: object, internals: Omit<ServiceInternals, 'brand'>): ServiceInternals {
  const value = Object.assign(internals, { brand: INTERNALS } as const);
  Object.defineProperty(service, INTERNALS, { value });
  return value;
}

/** True for a service of this package, also behind a Proxy or of another copy. False for a mock of one. */
export function isLockService(service: unknown): boolean {
  return (
    (service as { readonly [INTERNALS]?: Partial<ServiceInternals> } | undefined)?.[INTERNALS]?.brand ===
    INTERNALS
  );
}

export function internalsOf(service: object): ServiceInternals {
  return (service as { readonly [INTERNALS]: ServiceInternals })[INTERNALS];
}

/** As `EventHub.warnOnce`. */
export function warnOnce(service: object, about: string, message: string): void {
  internalsOf(service).events.warnOnce(about, message);
}

/** As `EventHub.warn`. */
export function warn(service: object, message: string): void {
  internalsOf(service).events.warn(message);
}
