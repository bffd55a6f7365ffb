import type { EventHub } from './event-hub.js';

/**
 * The name of the property that holds the internals of a service. A symbol, so that no editor offers it. A property instead of a WeakMap,
 * so that it is found through a Proxy of Nest, too.
 */
const INTERNALS = Symbol.for('nestjs-distributed-lock/service-internals');

/** Members of a `LockService` for the rest of this package, which applications do not see. */
export class ServiceInternals {
  /** True while the application boots, until `open()`. */
  isBooting = false;
  /** Whether the application has booted. Nest calls no hook of a leader that a lazy module adds later, so such a leader is refused. */
  hasBooted = false;
  /** Proves that these are real internals. A mock of a service may return something for every property, but not `INTERNALS` here. */
  private readonly brand = INTERNALS;

  /** @param events for the log, for tracing, and for other parts of this package that emit events */
  private constructor(readonly events: EventHub) {}

  /** Gives a new service its internals. */
  static put(service: object, events: EventHub): ServiceInternals {
    const value = new ServiceInternals(events);
    Object.defineProperty(service, INTERNALS, { value });
    return value;
  }

  static of(service: object): ServiceInternals {
    return (service as { readonly [INTERNALS]: ServiceInternals })[INTERNALS];
  }

  /** Whether this is a service of this package, possibly behind a Proxy or from another copy of the package. False for a mock. */
  static areIn(service: unknown): boolean {
    const internals = (service as { readonly [INTERNALS]?: ServiceInternals } | undefined)?.[INTERNALS];
    return internals?.brand === INTERNALS;
  }
}
