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
  /** The subjects of the warnings that are given once. */
  readonly warned: Set<string>;
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

/** Names of calls may be computed, so that there is no end of them. */
const MAX_WARNINGS = 100;

/** Warns of a probable mistake in the program, once for all warnings that are `about` the same. Not in production. */
export function warnOnce(service: object, about: string, message: string): void {
  const { warned } = internalsOf(service);
  if (process.env['NODE_ENV'] === 'production' || warned.has(about) || warned.size >= MAX_WARNINGS) return;
  warned.add(about);
  warn(service, message);
}

/** Emits a `warning` event, which the logger writes: the configuration works, and is probably not meant. */
export function warn(service: object, message: string): void {
  internalsOf(service).events.emit({ type: 'warning', key: undefined, message });
}
