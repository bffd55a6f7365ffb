// The way of a request to its lock and back. Nest calls the interceptor, which makes the key, waits for the lock, and runs the
// inner interceptors and the handler under it.
import { Inject, Injectable, Logger, type CallHandler, type CanActivate } from '@nestjs/common';
import type { ExecutionContext, NestInterceptor } from '@nestjs/common';
import { ApplicationConfig, HttpAdapterHost, ModuleRef } from '@nestjs/core';
import { catchError, finalize, Observable, of, type Subscriber, tap, type TeardownLogic } from 'rxjs';
import { andThen, type MaybePromise } from '../common/promises.js';
import { findLockService } from '../distributed-lock.tokens.js';
import { ServiceInternals } from '../lock/events/service-internals.js';
import type { Lock } from '../lock/lock.js';
import type { LockService } from '../lock/lock.service.js';
import { answerTo } from '../nest/answers.js';
import { hasAppConfig } from '../nest/app-config.js';
import { HandlerValues } from '../nest/handler-values.js';
import { enhancers, isSse } from '../nest/metadata.js';
import { isLockError, type LockError } from '../port/lock.errors.js';
import { acquireFor, acquireOrFallBack, WaitCancellation } from './acquire.js';
import type { Acquired, Granted, LockedCall } from './acquire.js';
import { ClientLeftError, httpErrorFor } from './client-errors.js';
import { runInOwnFlow } from './handler-flow.js';
import { type HandlerRequest, lastInterceptor, LockedHandlerRun } from './handler-run.js';
import { type LockPlan, lockPlanOf, siteOf } from './lock-plan.js';
import { breakOffWith, prepareTransport, toTransportError } from './transport-errors.js';
import { UnderLock } from './under-lock.js';

/**
 * Acquires the lock of a `@Locked` handler before the interceptors inside it and the handler run, and holds it until
 * all of them have ended.
 *
 * `@Locked` binds it. Bind it globally as well to lock around global interceptors that come after it; a request still locks once.
 * If a timeout of an outer interceptor fires while the call waits, the call leaves the queue. A timeout that fires later does not
 * free the lock under the running handler. On `@Sse` handlers it is bound as a guard as well.
 */
@Injectable()
export class LockedInterceptor implements NestInterceptor, CanActivate {
  private readonly reader: HandlerValues;
  /** Cached by registration name, because Nest walks over all modules to find a provider. */
  private readonly services = new Map<string | undefined, LockService>();
  /** Methods for which the log has warned already that a key lacked a value that the server must supply. One warning each. */
  private readonly warned = new Set<LockPlan>();
  private readonly logger = new Logger('DistributedLock');

  constructor(
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
    @Inject(ApplicationConfig) private readonly config: ApplicationConfig,
    @Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost,
  ) {
    this.reader = new HandlerValues(moduleRef, config);
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
    const passing = LockedHandlerRun.passing(context);
    if (passing) return hasLastInterceptor(context) ? next.handle() : passing.toHandler(next);
    const plan = lockPlanOf(context.getClass(), site);
    const request = { plan, context };
    const results = new Observable((out) =>
      this.inOwnFlow(request, () =>
        acquireFor(out, {
          // 2. When Nest subscribes, make the keys and wait for the lock, unless the guard has acquired it.
          acquire: (cancellation) => takeAcquired(context) ?? this.acquire(request, cancellation),
          // 3. Run the inner interceptors and the handler under the lock. Release it when all of them have ended.
          run: (granted, subscriber) => this.run({ ...request, ...granted, next }, subscriber),
          // 4. Translate a lock error into one that the client of this transport understands.
          errorFor: (error) => this.errorFor(error, request),
        }),
      ),
    );
    const answer = plan.answersItself && context.getType() === 'rpc' ? answerTo(context) : undefined;
    if (!answer) return results;
    return results.pipe(
      catchError((error: unknown) => of(breakOffWith(error, { answer, args: context.getArgs() }))),
    );
  }

  /**
   * As a guard, acquires the lock before Nest sends the headers of server-sent events, so that an error can still set the status.
   */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    const site = siteOf(context.getHandler());
    if (!site) return true;
    const cancellation = new WaitCancellation();
    const request = { plan: lockPlanOf(context.getClass(), site), context };
    try {
      keepAcquired(context, await this.inOwnFlow(request, () => this.acquire(request, cancellation)));
      return true;
    } catch (error) {
      throw this.errorFor(error, request);
    } finally {
      cancellation.end();
    }
  }

  /** If Nest calls the handler in the async context of another caller, runs `work` without that caller's locks. */
  private inOwnFlow<T>({ plan, context }: HandlerRequest, work: () => T): T {
    const warnOf = (foreignLocks: readonly Lock[]): void => {
      const keys = foreignLocks.map(({ key }) => `"${key}"`).join(', ');
      ServiceInternals.of(this.serviceOf(plan)).events.warnOnce(
        `foreign: ${plan.where}`,
        `@Locked on ${plan.where}: Nest has called it in the async context of another caller that holds ${keys}. It takes its own lock. Calls without @Locked would share those locks: a queue, a pool or a server was used or opened under them. Wrap the task, as in queue.add(AsyncResource.bind(task)).`,
      );
    };
    return runInOwnFlow(context, warnOf, work);
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
    const argsFor = (count: number) => plan.argumentsOf(count, context, this.reader);
    const call: LockedCall = {
      plan,
      argsFor,
      fallBack: async (onBusy, busy) => {
        const args = await argsFor(Math.max(0, onBusy.length - 1));
        return Reflect.apply(onBusy, await this.reader.handlerOf(context), [busy, ...args]) as unknown;
      },
      keys: () => plan.keysOfRequest(context, this.reader),
      service: this.serviceOf(plan),
    };
    return andThen(prepareTransport(context.getType()), () => acquireOrFallBack(call, cancellation));
  }

  private run(request: GrantedRequest, out: Subscriber<unknown>): TeardownLogic {
    const { plan, context, lock } = request;
    if (!lock) {
      const free = new LockedHandlerRun(request);
      const end = (): void => free.end();
      // End the run before an outer interceptor sees the error: it may go on again at once.
      return free.enter(() =>
        this.goOn(free, request)
          .pipe(tap({ error: end, complete: end }), finalize(end))
          .subscribe(out),
      );
    }
    const type = context.getType<string>();
    const underLock = new UnderLock(out, lock, {
      onLost: plan.onLost,
      lossFor: (error) => this.errorFor(error, request),
      streams: { where: plan.where, readBy: type === 'rpc' || type === 'ws' ? 'nobody' : 'nest' },
      answer: answerTo(context),
      // After `hijack()` or `response.write()` the handler sends the response itself, too, without Nest knowing.
      sendsItself: (answer) =>
        plan.answersItself || (answer.isBegun() && type === 'http' && !isSse(context.getHandler())),
    });
    const handlerRun = new LockedHandlerRun(request, underLock);
    // Nest runs the handler in the async context of `handle()`, and the handler's Observable in that of `subscribe()`. So run
    // both under the lock.
    return underLock.start(
      (observer) => handlerRun.enter(() => this.goOn(handlerRun, request).subscribe(observer)),
      handlerRun,
    );
  }

  /** Goes on to what Nest has behind this binding: other interceptors, or the handler. */
  private goOn(handlerRun: LockedHandlerRun, { context, next }: GrantedRequest): Observable<unknown> {
    // If this is a global binding, the one of the method follows.
    const isGlobal =
      hasAppConfig(context) &&
      this.config.getGlobalInterceptors().some((it) => it instanceof LockedInterceptor);
    return isGlobal || hasLastInterceptor(context) ? next.handle() : handlerRun.toHandler(next);
  }

  /** Makes the error for the client from an error of the lock. Errors of the handler do not come here. */
  private errorFor(error: unknown, { plan, context }: HandlerRequest): unknown {
    if (isLockError(error, 'LOCK_KEY')) this.logKeyError(error, plan, context);
    const type = context.getType<string>();
    if (type !== 'http') return toTransportError(error, type, context.getArgs());
    const { httpAdapter } = this.adapterHost;
    return httpErrorFor(error, { host: context, httpAdapter, moduleRef: this.moduleRef }, plan.options);
  }

  /** Logs the class, the method and the template, which the client does not get. The message contains no value of the request. */
  private logKeyError(error: LockError, plan: LockPlan, context: ExecutionContext): void {
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

  private serviceOf({ where, options: { name } }: LockPlan): LockService {
    let service = this.services.get(name);
    if (!service) {
      service = findLockService(this.moduleRef, name, { where: `@Locked on ${where}` });
      this.services.set(name, service);
    }
    return service;
  }
}

function hasLastInterceptor(context: ExecutionContext): boolean {
  return enhancers.of('interceptors', context.getHandler()).at(-1) === lastInterceptor;
}

interface GrantedRequest extends HandlerRequest, Granted {
  readonly next: CallHandler;
}

const EARLY = Symbol.for('nestjs-distributed-lock/acquired-by-guard');

/**
 * A request for which a guard has acquired the lock already. The lock is stored on the request, because Nest passes guards and
 * interceptors different contexts.
 */
interface EarlyRequest {
  [EARLY]?: { readonly handler: unknown; readonly acquired: Acquired } | undefined;
}

/**
 * Stores what a guard has acquired, so that the interceptor can pick it up. If the request ends before the interceptor runs,
 * releases the lock.
 */
function keepAcquired(context: ExecutionContext, acquired: Acquired): void {
  const request = context.getArgByIndex<EarlyRequest>(0);
  const early = { handler: context.getHandler(), acquired };
  request[EARLY] = early;
  answerTo(context)?.whenOver(() => {
    if (request[EARLY] !== early) return;
    request[EARLY] = undefined;
    if ('lock' in acquired) acquired.lock?.releaseInBackground();
  });
}

function takeAcquired(context: ExecutionContext): Acquired | undefined {
  const request = Object(context.getArgByIndex(0)) as EarlyRequest;
  const early = request[EARLY];
  if (early?.handler !== context.getHandler()) return undefined;
  request[EARLY] = undefined;
  return early.acquired;
}
