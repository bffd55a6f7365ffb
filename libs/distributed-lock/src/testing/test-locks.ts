import { EmptyError, filter, firstValueFrom } from 'rxjs';
import { ignoreFailure } from '../common/promises.js';
import { injectedProperty } from '../distributed-lock.tokens.js';
import { LockService } from '../lock/lock.service.js';
import type { LockEvent } from '../lock/events/lock.events.js';
import { ServiceInternals } from '../lock/events/service-internals.js';
import { MAX_LEASE_MS, type LockServiceOptions } from '../lock/request/lock-options.js';
import { LockConfigurationError, LockShutdownError } from '../port/lock.errors.js';
import { conceal } from '../common/redaction.js';
import { memoryStore } from '../memory/store.js';
import { RunnerClock } from './manual-clock.js';

/** Less than the time limit that Jest and Vitest give a test, so that the error says which key was not free. */
const WAIT_MS = 1000;

/**
 * Locks in memory for a unit test without a module: the `LockService` for objects that the test creates by `new`.
 *
 * Create one for each test. Each has locks of its own, so tests may run at the same time, in Jest, in Vitest or in any other runner.
 * Fake timers may be on: a call for a free key needs no timer, and a wait ends when `waitMs` have passed on the fake timers. Locks
 * without `leaseMs` last until their release, however far a test moves the time.
 *
 * Its defaults differ from those of the module's service: `memoryStore()`, and a `waitMs` of 1000.
 *
 * @example
 * ```ts
 * import { Locked } from 'nestjs-distributed-lock';
 * import { TestLocks } from 'nestjs-distributed-lock/testing';
 *
 * class Goods {@Locked('goods:<id>') async buy(id: string): Promise<void> {}}
 * await using locks = new TestLocks();
 * await locks.injectInto(new Goods()).buy('42');
 * console.log(locks.acquired); // ['goods:42']
 * ```
 */
export class TestLocks extends LockService implements AsyncDisposable {
  private readonly targets = new Set<object>();
  private readonly keys: string[] = [];

  /** @throws LockConfigurationError when options are wrong or contradict each other */
  constructor({ name, ...options }: TestLocksOptions = {}) {
    const { store = memoryStore(), clock = new RunnerClock(), waitMs = WAIT_MS } = options;
    super({ application: false, ...options, store, clock, waitMs, watchdogTimeoutMs: MAX_LEASE_MS }, name);
    ServiceInternals.of(this).events.inPlace.subscribe((event) => {
      if (event.type === 'acquired') this.keys.push(event.key);
    });
    conceal(this, 'targets', 'keys');
  }

  /** The keys acquired until now, in order and without `keyPrefix`. Nested calls for a key that is held do not count. */
  get acquired(): readonly string[] {
    return [...this.keys];
  }

  /**
   * Resolves with the next event of this type, so that a test can go on when a call waits (`asked`), holds (`acquired`) or was refused
   * (`abandoned`), without a pause of some length. Call it before the step that causes the event.
   *
   * @param isWanted skips the events for which it returns `false`
   * @throws LockShutdownError when these locks are closed before
   * @example
   * ```ts
   * import { TestLocks } from 'nestjs-distributed-lock/testing';
   *
   * await using locks = new TestLocks();
   * const held = locks.waitFor('acquired', ({ key }) => key === 'goods:42');
   * const work = locks.withLock('goods:42', () => 'done');
   * console.log((await held).by, await work); // store done
   * ```
   */
  waitFor<Type extends LockEvent['type']>(
    type: Type,
    isWanted: (event: EventOf<Type>) => boolean = () => true,
  ): Promise<EventOf<Type>> {
    const isMatch = (event: LockEvent): event is EventOf<Type> =>
      event.type === type && isWanted(event as EventOf<Type>);
    const found = firstValueFrom(this.events$.pipe(filter(isMatch))).catch((error: unknown) => {
      if (!(error instanceof EmptyError)) throw error;
      throw new LockShutdownError(`No "${type}" event came before these locks were closed.`, undefined);
    });
    // A test that has failed before it awaits this must not end the process, too.
    ignoreFailure(found);
    return found;
  }

  /**
   * Makes the `@Locked` methods of `target` run under these locks until `close()`.
   *
   * @param target an object; a class for its static methods; the `prototype` of a class for all its objects that have no service of
   * their own. A provider of an application with a `DistributedLockModule` keeps the service of the module.
   * @returns the target
   * @throws LockConfigurationError for a provider that has the service of a module
   */
  injectInto<T extends object>(target: T): T {
    const property = injectedProperty(this.name);
    const present = Object.getOwnPropertyDescriptor(target, property)?.value as unknown;
    if (ServiceInternals.areIn(present) && !(present instanceof TestLocks)) {
      throw new LockConfigurationError(
        `TestLocks.injectInto was given a ${target.constructor.name} that has the locks of a DistributedLockModule. Give it an object that was made by new, or use the LockService of the module.`,
      );
    }
    Object.defineProperty(target, property, { value: this, configurable: true, writable: true });
    this.targets.add(target);
    return target;
  }

  /**
   * Removes itself from all targets, refuses new calls, and waits at most `shutdownGraceMs` for locks that are held.
   * `await using locks = new TestLocks()` does this at the end of the block.
   */
  override async close(): Promise<void> {
    const property = injectedProperty(this.name);
    for (const target of this.targets) {
      if ((target as Record<symbol, unknown>)[property] === this) Reflect.deleteProperty(target, property);
    }
    this.targets.clear();
    await super.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

type EventOf<Type extends LockEvent['type']> = Extract<LockEvent, { readonly type: Type }>;

/** Options of `TestLocks`. */
export interface TestLocksOptions extends Partial<Omit<LockServiceOptions, 'watchdogTimeoutMs'>> {
  /** The name of the registration that these locks replace; default: the one without a name. */
  readonly name?: string;
}
