import { Inject, Injectable, Logger, type CallHandler, type CanActivate } from '@nestjs/common';
import type { ExecutionContext, NestInterceptor } from '@nestjs/common';
import { ApplicationConfig, HttpAdapterHost, ModuleRef } from '@nestjs/core';
import { catchError, finalize, Observable, of, type Subscriber, type TeardownLogic } from 'rxjs';
import { andThen, type MaybePromise } from '../common/promises.js';
import { findLockService, findProvider, getLockHttpToken } from '../distributed-lock.tokens.js';
import type { HeldLock } from '../lock/core/hold.js';
import { ServiceInternals } from '../lock/events/service-internals.js';
import type { LockService } from '../lock/lock.service.js';
import { enhancers, isSse } from '../nest/metadata.js';
import { isLockError, type LockError } from '../port/lock.errors.js';
import { acquireOrFallBack, keepAcquired, takeAcquired, WaitCancellation, whenAcquired } from './acquire.js';
import type { Acquired, LockedCall } from './acquire.js';
import { answerTo, grpcCallOf } from './answers.js';
import { hasAppConfig, isInOwnFlow, locksLeftOut, runInOwnFlow } from './handler-flow.js';
import { lastInterceptor, LockedHandlerRun, toHandler, UnderLock } from './handler-run.js';
import type { HandlerRequest } from './handler-run.js';
import { HandlerValues } from './handler-values.js';
import { KeyPlan } from './key-plan.js';
import { ClientLeftError, resolveLockHttp, retryAfterSeconds, toHttpException } from './lock-http.js';
import type { LockHttpStatus } from './lock-http.js';
import { siteOf } from './locked.options.js';
import { answerCall, prepareTransport, toTransportError } from './transport-error.js';

/**
 * Acquires the lock of a `@Locked` handler before the interceptors inside it and the handler run, and holds it until
 * all of them have ended.
 *
 * `@Locked` binds it. Bind it globally as well to lock around global interceptors that come after it: it locks once.
 * If a timeout of an outer interceptor fires while the call waits, the call leaves the queue. A timeout that fires later
 * does not free the lock under the running handler. On `@Sse` handlers it is bound as a guard as well.
 */
@Injectable()
export class LockedInterceptor implements NestInterceptor, CanActivate {
  private readonly values: HandlerValues;
  /** The service of each registration. Cached, because Nest walks over all modules to find a provider. */
  private readonly services = new Map<string | undefined, LockService>();
  /** Methods for which the log has warned already that a key lacked a value that the server must supply. One warning each. */
  private readonly warned = new Set<KeyPlan>();
  private readonly logger = new Logger('DistributedLock');

  constructor(
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
    @Inject(ApplicationConfig) private readonly config: ApplicationConfig,
    @Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost,
  ) {
    this.values = new HandlerValues(moduleRef, config);
  }

  /**
   * Not `async`: Nest could then unsubscribe only after the promise has settled, so a call could not leave the queue while it
   * waits.
   */
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const site = siteOf(context.getHandler());
    if (!site) return next.handle();
    // 1. If an outer binding of this interceptor has acquired already, only pass the call on: to the next interceptor, or to the
    //    handler.
    const passing = LockedHandlerRun.passing(context, site);
    if (passing) return this.isLast(context) ? toHandler(passing, next) : next.handle();
    const call = { site, plan: KeyPlan.of(context.getClass(), site), context };
    const results = whenAcquired<unknown>(
      // 2. When Nest subscribes, make the keys and wait for the lock, unless the guard has acquired it.
      (cancellation) => takeAcquired(context) ?? this.acquire(call, cancellation),
      // 3. Run the inner interceptors and the handler under the lock. Release it when all of them have ended.
      (lock, out) => this.run({ ...call, next }, lock, out),
      // 4. Translate a lock error into one that the client of this transport understands.
      (error) => this.errorFor(error, call),
    );
    const grpcCall = call.plan.shape.answersItself ? grpcCallOf(context.getArgs()) : undefined;
    const answered = grpcCall
      ? results.pipe(catchError((error: unknown) => of(answerCall(grpcCall, error))))
      : results;
    // 5. If Nest calls the handler in the async context of another caller, do all of this without that caller's locks.
    return isInOwnFlow(context)
      ? answered
      : new Observable((out) => this.inOwnFlow(call, () => answered.subscribe(out)));
  }

  /**
   * As a guard, acquires the lock before Nest sends the headers of server-sent events, so that an error can still set the status.
   */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    const site = siteOf(context.getHandler());
    if (!site) return true;
    const cancellation = new WaitCancellation();
    const call = { site, plan: KeyPlan.of(context.getClass(), site), context };
    const acquire = () => this.acquire(call, cancellation);
    try {
      const acquired = isInOwnFlow(context) ? acquire() : this.inOwnFlow(call, acquire);
      keepAcquired(context, await acquired);
      return true;
    } catch (error) {
      throw this.errorFor(error, call);
    } finally {
      cancellation.end();
    }
  }

  private inOwnFlow<T>({ plan, context }: HandlerRequest, work: () => T): T {
    const foreignLocks = locksLeftOut(context);
    if (foreignLocks.length > 0) {
      const keys = foreignLocks.map(({ key }) => `"${key}"`).join(', ');
      ServiceInternals.of(this.serviceOf(plan)).events.warnOnce(
        `foreign: ${plan.where}`,
        `@Locked on ${plan.where}: Nest has called it in the async context of another caller that holds ${keys}. It takes its own lock. Calls without @Locked would share those locks: a queue, a pool or a server was used or opened under them. Wrap the task, as in queue.add(AsyncResource.bind(task)).`,
      );
    }
    return runInOwnFlow(context, work);
  }

  /**
   * Returns whether the handler comes next. False for a global binding of this interceptor, which is followed by the binding of
   * the method.
   */
  private isLast(context: ExecutionContext): boolean {
    if (enhancers.of('interceptors', context.getHandler()).at(-1) === lastInterceptor) return false;
    if (LockedHandlerRun.of(context) || !hasAppConfig(context)) return true;
    return !this.config.getGlobalInterceptors().some((it) => it instanceof LockedInterceptor);
  }

  private acquire({ plan, context }: HandlerRequest, cancellation: WaitCancellation): MaybePromise<Acquired> {
    // If the client disconnects while the call waits, leave the queue. Gateways have no response to watch; there Nest
    // unsubscribes by itself.
    const answer = answerTo(context);
    if (answer) {
      cancellation.whenOver(
        answer.whenOver(() => answer.wasLeft() && cancellation.cancel(new ClientLeftError())),
      );
    }
    const argsFor = (count: number) => plan.argumentsOf(count, context, this.values);
    const call: LockedCall = {
      plan,
      argsFor,
      fallBack: async (onBusy, busy) => {
        const args = await argsFor(Math.max(0, onBusy.length - 1));
        return Reflect.apply(onBusy, await this.values.handlerOf(context), [busy, ...args]) as unknown;
      },
      keys: () => plan.keysOfRequest(context, this.values),
      service: () => this.serviceOf(plan),
    };
    return andThen(prepareTransport(context.getType()), () => acquireOrFallBack(call, cancellation));
  }

  private run(
    call: HandlerRequest & { readonly next: CallHandler },
    lock: HeldLock | undefined,
    out: Subscriber<unknown>,
  ): TeardownLogic {
    const { plan, context, next } = call;
    const isLast = this.isLast(context);
    // Nest runs the handler in the async context of `handle()`, and the handler's Observable in that of `subscribe()`. So run
    // both under the lock.
    const inside = (handlerRun: LockedHandlerRun): Observable<unknown> =>
      isLast ? toHandler(handlerRun, next) : next.handle();
    if (!lock) {
      const free = new LockedHandlerRun(call, undefined);
      return free.enter(() =>
        inside(free)
          .pipe(finalize(() => free.close()))
          .subscribe(out),
      );
    }
    const type = context.getType<string>();
    const underLock = new UnderLock(out, lock, {
      onLost: plan.options.onLost ?? 'throw',
      lossFor: (error) => this.errorFor(error, call),
      streams: { where: plan.where, readBy: type === 'rpc' || type === 'ws' ? 'nobody' : 'nest' },
      answer: answerTo(context),
      // A handler also sends the response itself if Nest does not know it: after `hijack()` or `response.write()`.
      sendsItself: (answer) =>
        plan.shape.answersItself || (answer.isBegun() && type === 'http' && !isSse(context.getHandler())),
    });
    const handlerRun = new LockedHandlerRun(call, lock, underLock);
    underLock.start((observer) => handlerRun.enter(() => inside(handlerRun).subscribe(observer)), handlerRun);
    return () => underLock.leave();
  }

  /** Makes the error for the client from an error of the lock. Errors of the handler do not come here. */
  private errorFor(error: unknown, { plan, context }: HandlerRequest): unknown {
    const { name, http, leaseMs } = plan.options;
    const type = context.getType<string>();
    if (isLockError(error) && error.code === 'LOCK_KEY') this.logKeyError(error, plan, context);
    if (type !== 'http') return toTransportError(error, type, context.getArgs());
    const seconds = retryAfterSeconds(error, leaseMs);
    if (seconds !== undefined) {
      const response: unknown = context.switchToHttp().getResponse();
      this.adapterHost.httpAdapter.setHeader(response, 'Retry-After', String(seconds));
    }
    const status = findProvider<LockHttpStatus>(this.moduleRef, getLockHttpToken(name));
    return toHttpException(error, resolveLockHttp(http, status));
  }

  /** Logs the class, the method and the template, which the client does not get. The message contains no value of the request. */
  private logKeyError(error: LockError, plan: KeyPlan, context: ExecutionContext): void {
    const text = `@Locked on ${plan.where}: ${error.message}`;
    if (!plan.isServerMistake(error)) {
      const { headers } = Object(context.getArgByIndex(0)) as { headers?: Readonly<Record<string, unknown>> };
      const isForm = String(headers?.['content-type']).startsWith('multipart/');
      const advice =
        ' The fields of a multipart form are read by an interceptor inside of the lock: lock a service method.';
      this.logger.debug(isForm ? text + advice : text);
    } else if (!this.warned.has(plan)) {
      this.warned.add(plan);
      ServiceInternals.of(this.serviceOf(plan)).events.warn(
        `${text} No client sends it: look for a guard that is missing here or runs later, for a claim that the token lacks, and for a decorator that gives nothing. Clients are answered 400, and later ones without a word here.`,
      );
    }
  }

  private serviceOf({ where, options: { name } }: KeyPlan): LockService {
    let service = this.services.get(name);
    if (!service) {
      service = findLockService(this.moduleRef, name, { where: `@Locked on ${where}` });
      this.services.set(name, service);
    }
    return service;
  }
}
