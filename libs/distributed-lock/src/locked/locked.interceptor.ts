import { Inject, Injectable, Logger, type CallHandler, type CanActivate } from '@nestjs/common';
import type { ExecutionContext, NestInterceptor } from '@nestjs/common';
import { ApplicationConfig, HttpAdapterHost, ModuleRef } from '@nestjs/core';
import { catchError, finalize, Observable, of, type Subscriber, type TeardownLogic } from 'rxjs';
import { andThen, type MaybePromise } from '../async-context/maybe-promise.js';
import {
  assertGenuine,
  getLockHttpToken,
  getLockServiceToken,
  importOf,
} from '../distributed-lock.tokens.js';
import type { HeldLock } from '../lock/core/held-lock.js';
import { warn, warnOnce } from '../lock/events/service-internals.js';
import type { LockService } from '../lock/lock.service.js';
import { INTERCEPTORS, boundTo, isSse } from '../nest/metadata.js';
import { LockConfigurationError, isLockError, type LockError } from '../port/lock.errors.js';
import { acquireOrFallBack, keepAcquired, takeAcquired, whenAcquired } from './acquire.js';
import type { Acquired, LockedCall } from './acquire.js';
import { answerTo, grpcCallOf, type Answer } from './answers.js';
import { Departure } from './departure.js';
import { hasAppConfig, isInOwnFlow, locksLeftOut, runInOwnFlow } from './handler-flow.js';
import { HandlerRun, lastInterceptor, toHandler, type HandlerRequest } from './handler-run.js';
import { HandlerValues } from './handler-values.js';
import { KeyPlan } from './key-plan.js';
import { ClientLeftError, resolveLockHttp, retryAfterSeconds, toHttpException } from './lock-http.js';
import type { LockHttpStatus } from './lock-http.js';
import { siteOf } from './locked-site.js';
import { answerCall, prepareTransport, toTransportError } from './transport-error.js';
import { UnderLock } from './under-lock.js';

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
  /** The services by registration. They are kept, because Nest walks over all modules to find one. */
  private readonly services = new Map<string | undefined, LockService>();
  /** Whose key lacked a value that the server itself has to give. It is told once for each. */
  private readonly warned = new Set<KeyPlan>();

  constructor(
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
    @Inject(ApplicationConfig) private readonly config: ApplicationConfig,
    @Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost,
  ) {
    this.values = new HandlerValues(moduleRef, config);
  }

  /** Not `async`: Nest could not unsubscribe, and so leave the queue, before the promise has settled. */
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const site = siteOf(context.getHandler());
    if (!site) return next.handle();
    const passing = HandlerRun.passing(context, site);
    if (passing) return this.isLast(context) ? toHandler(passing, next) : next.handle();
    const call = { site, plan: KeyPlan.of(context.getClass(), site), context, next };
    const results = whenAcquired<unknown>(
      (departure) => takeAcquired(context) ?? this.acquire(call, departure),
      (lock, out) => this.run(call, lock, out),
      (error) => this.errorFor(error, call),
    );
    const own = call.plan.answersItself ? grpcCallOf(context.getArgs()) : undefined;
    const answered = own ? results.pipe(catchError((error: unknown) => of(answerCall(own, error)))) : results;
    return isInOwnFlow(context)
      ? answered
      : new Observable((out) => this.inOwnFlow(call, () => answered.subscribe(out)));
  }

  /** Acquires before Nest sends the headers of server-sent events, so that an error can have its own status. */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    const site = siteOf(context.getHandler());
    if (!site) return true;
    const departure = new Departure();
    const call = { site, plan: KeyPlan.of(context.getClass(), site), context };
    try {
      const outcome = isInOwnFlow(context)
        ? this.acquire(call, departure)
        : this.inOwnFlow(call, () => this.acquire(call, departure));
      keepAcquired(context, await outcome);
      return true;
    } catch (error) {
      throw this.errorFor(error, call);
    } finally {
      departure.end();
    }
  }

  private inOwnFlow<T>({ plan, context }: HandlerRequest, work: () => T): T {
    const left = locksLeftOut(context);
    if (left.length > 0) {
      const keys = left.map(({ key }) => `"${key}"`).join(', ');
      warnOnce(
        this.serviceOf(plan),
        `foreign: ${plan.where}`,
        `@Locked on ${plan.where}: Nest has called it in the async context of another caller that holds ${keys}. It takes its own lock. Calls without @Locked would share those locks: a queue, a pool or a server was used or opened under them. Wrap the task, as in queue.add(AsyncResource.bind(task)).`,
      );
    }
    return runInOwnFlow(context, work);
  }

  /** True where only the handler follows. A global interceptor has the interceptor of the method after it. */
  private isLast(context: ExecutionContext): boolean {
    if (boundTo(INTERCEPTORS, context.getHandler()).at(-1) === lastInterceptor) return false;
    if (HandlerRun.of(context) || !hasAppConfig(context)) return true;
    return !this.config.getGlobalInterceptors().some((it) => it instanceof LockedInterceptor);
  }

  private acquire({ plan, context }: HandlerRequest, departure: Departure): MaybePromise<Acquired> {
    leaveWithClient(answerTo(context), departure);
    const argsFor = (count: number) => plan.argumentsOf(count, context, this.values);
    const keys = () => plan.keysOfRequest(context, this.values);
    const service = () => this.serviceOf(plan);
    const fallBack: LockedCall['fallBack'] = async (onBusy, busy) => {
      const args = await argsFor(Math.max(0, onBusy.length - 1));
      return Reflect.apply(onBusy, await this.values.handlerOf(context), [busy, ...args]) as unknown;
    };
    const acquire = () => acquireOrFallBack({ plan, argsFor, fallBack, keys, service }, departure);
    return andThen(prepareTransport(context.getType()), acquire);
  }

  private run(
    call: HandlerRequest & { readonly next: CallHandler },
    lock: HeldLock | undefined,
    out: Subscriber<unknown>,
  ): TeardownLogic {
    const { plan, context, next } = call;
    const isLast = this.isLast(context);
    // Nest keeps the async context of handle() for the handler, and that of subscribe() for the handler's Observable.
    const inside = (handlerRun: HandlerRun): Observable<unknown> =>
      isLast ? toHandler(handlerRun, next) : next.handle();
    if (!lock) {
      const free = new HandlerRun(call, undefined);
      const whole = () => inside(free).pipe(finalize(() => free.close()));
      return free.enter(() => whole().subscribe(out));
    }
    const type = context.getType<string>();
    const answer = answerTo(context);
    const underLock = new UnderLock(out, lock, {
      onLost: plan.options.onLost ?? 'throw',
      lossFor: (error) => this.errorFor(error, call),
      streams: {
        where: plan.where,
        readBy: type === 'rpc' || type === 'ws' ? 'nobody' : 'nest',
        whenLeft: (stop) => answer?.whenOver(stop),
      },
      ownAnswer: () => (answer && isOwn(answer, call) ? answer : undefined),
    });
    const handlerRun = new HandlerRun(call, lock, underLock);
    underLock.start((observer) => handlerRun.enter(() => inside(handlerRun).subscribe(observer)), handlerRun);
    return () => underLock.leave();
  }

  /** The error for the client. Called for errors of the lock itself, not for errors of the handler. */
  private errorFor(error: unknown, { plan, context }: HandlerRequest): unknown {
    const { options } = plan;
    const type = context.getType<string>();
    if (isLockError(error) && error.code === 'LOCK_KEY') this.logKeyError(error, plan, context);
    if (type !== 'http') return toTransportError(error, type, context.getArgs());
    const seconds = retryAfterSeconds(error, options.leaseMs);
    if (seconds !== undefined) {
      const response: unknown = context.switchToHttp().getResponse();
      this.adapterHost.httpAdapter.setHeader(response, 'Retry-After', String(seconds));
    }
    const status = this.find<LockHttpStatus>(getLockHttpToken(options.service), plan);
    return toHttpException(error, resolveLockHttp(options.http, status));
  }

  /** The log has the class, the method and the template, which the client does not learn. The message repeats no value. */
  private logKeyError(error: LockError, plan: KeyPlan, context: ExecutionContext): void {
    if (!plan.isServerMistake(error)) return logClientMistake(error, plan, context);
    if (this.warned.has(plan)) return;
    this.warned.add(plan);
    warn(
      this.serviceOf(plan),
      `@Locked on ${plan.where}: ${error.message} No client sends it: look for a guard that is missing here or runs later, for a claim that the token lacks, and for a decorator that gives nothing. Clients are answered 400, and later ones without a word here.`,
    );
  }

  private serviceOf(plan: KeyPlan): LockService {
    const registration = plan.options.service;
    let service = this.services.get(registration);
    if (!service) {
      service = this.find<LockService>(getLockServiceToken(registration), plan);
      assertGenuine(service, registration, `@Locked on ${plan.where}`);
      this.services.set(registration, service);
    }
    return service;
  }

  private find<T>(token: symbol, { where, options }: KeyPlan): T {
    try {
      return this.moduleRef.get<T>(token, { strict: false });
    } catch (cause) {
      const name = options.service === undefined ? '' : ` with the name "${options.service}"`;
      const text = `@Locked on ${where}: there is no DistributedLockModule${name} in this application. Import ${importOf(options.service)} in its root module.`;
      throw new LockConfigurationError(text, { cause });
    }
  }
}

/** Leaves the queue when the client has gone. Nest itself tears down gateways and Observables. */
function leaveWithClient(answer: Answer | undefined, departure: Departure): void {
  if (!answer) return;
  const stop = answer.whenOver(() => {
    if (answer.wasLeft) departure.leave(new ClientLeftError());
  });
  departure.whenOver(stop);
}

/** True if the handler sends the answer itself, also where Nest does not know: by `hijack()`, or by `response.write()`. */
function isOwn(answer: Answer, { plan, context }: HandlerRequest): boolean {
  return (
    plan.answersItself || (answer.isBegun && !isSse(context.getHandler()) && context.getType() === 'http')
  );
}

const logger = new Logger('DistributedLock');

function logClientMistake({ message }: LockError, { where }: KeyPlan, context: ExecutionContext): void {
  const { headers } = Object(context.getArgByIndex(0)) as { headers?: Readonly<Record<string, unknown>> };
  const isForm = String(headers?.['content-type']).startsWith('multipart/');
  const advice =
    ' The fields of a multipart form are read by an interceptor inside of the lock: lock a service method.';
  logger.debug(`@Locked on ${where}: ${message}${isForm ? advice : ''}`);
}
