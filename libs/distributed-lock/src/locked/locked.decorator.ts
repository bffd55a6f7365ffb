import { injectLockService } from '../distributed-lock.tokens.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { refuseStandard } from '../options/standard-decorators.js';
import { fillSlots } from './current-lock.decorator.js';
import { callLocked, type MethodCall } from './call.js';
import { ExpectedNestCall } from './handler-run.js';
import { LockedInterceptor } from './locked.interceptor.js';
import { type AnyFunction, INTERCEPTORS, putInFront } from '../nest/metadata.js';
import { keySource, putSite, siteOf, type LockedSite } from './site.js';
import { checkLockedOptions, type LockedOptions, type LockPredicate } from './locked.options.js';
import type { CheckedOptions, LockedDecorator, LockedKey, OnBusy } from './locked.types.js';
import { signatureOf } from '../nest/parameter-names.js';
import { declaringClass } from '../nest/parameter-slots.js';
import { wrapMethod } from '../nest/wrap-method.js';

/**
 * Runs the method under a lock: acquires it before, renews it while the method runs, releases it when it has ended.
 *
 * The key is a template, several templates (all are held, acquired in one order everywhere), or a function of the arguments.
 *
 * - On handlers `<id>` is the parameter that the handler reads by that name, over the same pipes. `<params.id>`,
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
    checkLockedOptions(`@Locked on ${declaredIn.name}.${String(method)}`, options);
    const isStatic = typeof target === 'function';
    const site: LockedSite = Object.freeze({
      key: source,
      options,
      declaredIn,
      method,
      isStatic,
      inner: siteOf(original),
      signature: signatureOf(original),
      isGenerator: Object.prototype.toString.call(original) === '[object AsyncGeneratorFunction]',
    });
    const wrapped = wrapMethod(original, (self, args) => callSite({ site, original, self, args }));
    putSite(wrapped, site);
    descriptor.value = wrapped;
    if (isStatic) return;
    // First in the list is outermost. @UseInterceptors appends, above or below @Locked, and so stays inside.
    putInFront(INTERCEPTORS, LockedInterceptor, wrapped);
    injectLockService(target, options.name);
  };
}

function callSite(call: MethodCall): unknown {
  const { site, original, self, args } = call;
  const expected = ExpectedNestCall.of(site, args);
  if (!expected) return callLocked(call);
  return expected.run((lock) => Reflect.apply(original, self, fillSlots(site, args, lock)) as unknown);
}
