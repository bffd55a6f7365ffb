// `@Locked` where the application writes it: wraps the method when the class is loaded, and binds `LockedInterceptor` for the
// case that Nest calls it as a handler. Each call then goes through the wrapper: Nest's own call has its lock already, any other
// goes to `callLocked`.
import { injectLockService } from '../distributed-lock.tokens.js';
import { KeyTemplate } from '../keys/key-template.js';
import type { Lock } from '../lock/lock.js';
import { isKeyClaim } from '../lock/request/key-claim.js';
import { type AnyFunction, enhancers, refuseStandard, wrapMethod } from '../nest/metadata.js';
import { declaringClass, ParameterSlots } from '../nest/parameter-names.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { describeGiven } from '../port/option-checks.js';
import { callLocked } from './call.js';
import type {
  CheckedOptions,
  LockedDecorator,
  LockedKey,
  LockedTemplate,
  OnBusy,
} from './decorator-types.js';
import { ExpectedNestCall } from './handler-run.js';
import { type LockedSite, newLockedSite, putSite } from './lock-plan.js';
import { LockedInterceptor } from './locked.interceptor.js';
import { checkLockedOptions, type LockedOptions, type LockPredicate } from './locked.options.js';

/**
 * Runs the method under a lock: acquires it before, renews it while the method runs, releases it when it has ended.
 *
 * The key is a template, several templates (all are held, acquired in one order everywhere), or a function of the arguments. A template
 * in `shared(…)`, `exclusive(…)` or `permits(…)` makes keys that are held that way, whatever the options say.
 *
 * - On handlers `<id>` is the parameter that the handler reads by that name, through the same pipes. `<params.id>`,
 *   `<query.x>`, `<body.a.b>`, `<headers.x>`, `<user.id>`, `<data.x>` name a source. The pipes of a named parameter run twice
 *   in a request, so they must be cheap and without effects. The lock is around the interceptors of the method and its class.
 * - On any other method of a provider `<id>` is the argument of that name, and `<0.sku>` a property of one by position.
 *
 * A call that gets no lock rejects, and the method does not run: `LockWaitTimeoutError` when the key is not free within
 * `waitMs` (423 on HTTP, see `onBusy`), `LockStoreError` (503), `LockShutdownError` (503), `LockKeyError` (400). A call whose
 * lock is lost while it runs rejects with `LockLostError` (503, see `onLost`).
 *
 * A name that the method does not have stops the boot. Without a `DistributedLockModule` the call fails, and never runs
 * without the lock. Other decorators may stand above or below.
 *
 * A result that goes on producing (an async generator, a web or Node stream, a `Response`, a `StreamableFile`) holds the
 * lock until it has ended or its reader has left it. An `async *` method acquires when its first value is asked for.
 *
 * @param key a template, a list of templates, or a function of the method's arguments that returns one key or several
 * @param options those of `LockedOptions`; what is left out comes from `LockDefaults` of the class, then from the module
 * @throws LockConfigurationError for a mistake in a template or an option, when the class is loaded; for an option it names the method
 * @example
 * ```ts
 * class Goods {@Locked('goods:<id>', { waitMs: 2000 }) async buy(id: string, count: number): Promise<void> {}}
 * ```
 */
export function Locked<
  const K extends LockedKey,
  B extends OnBusy = OnBusy,
  W extends LockPredicate = LockPredicate,
>(key: K, options?: LockedOptions & CheckedOptions<B, W>): LockedDecorator<K, B, W>;
export function Locked(key: LockedKey, options: LockedOptions = {}): MethodDecorator {
  const source = keySource(key);
  return (target, method, descriptor: PropertyDescriptor | undefined) => {
    refuseStandard('@Locked', method);
    const original = descriptor?.value as AnyFunction | undefined;
    const declaredIn = declaringClass(target);
    if (!descriptor || typeof original !== 'function') {
      const what = method === undefined ? 'a class' : 'not a method';
      const where = method === undefined ? declaredIn.name : `${declaredIn.name}.${String(method)}`;
      throw new LockConfigurationError(
        `@Locked on ${where}: this is ${what}. Put it on the methods that are to be locked.`,
      );
    }
    checkLockedOptions(`@Locked on ${declaredIn.name}.${String(method)}`, options, source);
    const site = newLockedSite({ target, method, original }, { key: source, options });
    const wrapped = wrapMethod(original, (self, args) => {
      const run = (lock: Lock | undefined): unknown =>
        Reflect.apply(original, self, lock ? LOCK_SLOTS.fill({ target, method }, args, lock) : args);
      // Nest's own call of a handler has its lock already. Any other call acquires one.
      const nestCall = ExpectedNestCall.of(site, args);
      return nestCall ? nestCall.run(run) : callLocked({ site, self, args, run });
    });
    putSite(wrapped, site);
    descriptor.value = wrapped;
    if (site.isStatic) return;
    // Put the lock first, which is outermost. @UseInterceptors appends to this list, whether above or below @Locked, so its
    // interceptors run inside.
    enhancers.putFirst('interceptors', LockedInterceptor, wrapped);
    injectLockService(target, options.name);
  };
}

function keySource(key: LockedKey): LockedSite['key'] {
  if (typeof key === 'function') return key;
  const templates: unknown = isTemplate(key) ? [key] : key;
  if (!Array.isArray(templates) || !templates.every(isTemplate)) {
    const description = Array.isArray(templates)
      ? 'a list with something else in it'
      : describeGiven(templates);
    throw new LockConfigurationError(
      `@Locked takes a key template, a list of them or a function of the arguments; it was given ${description}. Write @Locked('order:<id>').`,
    );
  }
  if (templates.length === 0) throw new LockConfigurationError('@Locked needs at least one key.');
  return templates.map((template) => KeyTemplate.compile(template));
}

function isTemplate(value: unknown): value is LockedTemplate {
  return typeof value === 'string' || (isKeyClaim(value) && typeof value.key === 'string');
}

/**
 * Records which parameters of a method are decorated with `@CurrentLock()` or `@LockSignal()`, so that the wrapper fills them in.
 */
export const LOCK_SLOTS = new ParameterSlots<Lock>(Symbol.for('nestjs-distributed-lock/slots'));

/**
 * The lock that this call of a `@Locked` method holds. Pipes do not get it.
 *
 * Callers leave the argument out, so write `lock?: Lock` on methods that other code calls. It is `undefined` when the option
 * `when` has decided that no lock is needed. If the method has no `@Locked`, the boot fails.
 *
 * @example
 * ```ts
 * class Stock {@Locked('stock') async count(@CurrentLock() lock?: Lock) { return lock?.fencingToken; }}
 * ```
 */
export function CurrentLock(): ParameterDecorator {
  return LOCK_SLOTS.decorator('@CurrentLock', (lock) => lock);
}

/**
 * The signal of the lock that this call of a `@Locked` method holds. It aborts when the lock is lost.
 *
 * @example
 * ```ts
 * class Rates {@Locked('rates') async load(@LockSignal() signal?: AbortSignal) { return fetch('https://rates.example', { signal }); }}
 * ```
 */
export function LockSignal(): ParameterDecorator {
  return LOCK_SLOTS.decorator('@LockSignal', (lock) => lock.signal);
}
