import {
  Inject,
  Injectable,
  type CallHandler,
  type CanActivate,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { ApplicationConfig, HttpAdapterHost, ModuleRef } from '@nestjs/core';
import { finalize, type Observable, type Subscriber, type TeardownLogic } from 'rxjs';
import { getLockHttpToken, getLockServiceToken } from '../distributed-lock.tokens.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import type { HeldLock } from '../lock/context/held-lock.js';
import type { LockService } from '../lock/lock.service.js';
import { hasAppConfig } from './nest/app-config.guard.js';
import { Activation, type LockedCall as ActivationCall } from './call/activation.js';
import { acquireFor, answersBusy, busyAnswer } from './call/busy-answer.js';
import { leaveWithClient, whenAnswered } from './call/client-left.js';
import { Departure } from './call/departure.js';
import { EarlyAdmissions } from './call/early-admissions.js';
import { HandlerValues, isPromise } from './plan/handler-values.js';
import { KeyPlan } from './plan/key-plan.js';
import { lastInterceptor } from './call/last-interceptor.js';
import {
  resolveLockHttp,
  retryAfterSeconds,
  toHttpException,
  type LockHttpStatus,
} from './errors/lock-http.js';
import { siteOf } from './site/locked-site.js';
import { INTERCEPTORS, boundTo } from './nest/nest-metadata.js';
import { prepareTransport, toTransportError } from './errors/transport-error.js';
import { UnderLock, whenAdmitted, type Admission } from './call/under-lock.js';

type LockedCall = ActivationCall & { readonly plan: KeyPlan };

/**
 * Acquires the lock of a `@Locked` handler before the interceptors inside it and the handler run, and holds it until
 * all of them have ended.
 *
 * `@Locked` binds it; bind it globally as well to lock around global interceptors that come after it. Bound more than
 * once, it locks once. A timeout outside that fires in the line leaves the line; one that fires later, inside or
 * outside, does not free the lock under the running handler. On `@Sse` handlers it is bound as a guard as well.
 */
@Injectable()
export class LockedInterceptor implements NestInterceptor, CanActivate {
  private readonly values: HandlerValues;
  private readonly early = new EarlyAdmissions();
  /** By registration: looking one up takes a walk over the modules. */
  private readonly services = new Map<string | undefined, LockService>();

  constructor(
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
    @Inject(ApplicationConfig) private readonly config: ApplicationConfig,
    @Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost,
  ) {
    this.values = new HandlerValues(moduleRef, config);
  }

  /** Not `async`: nobody could leave the line before the promise has settled. */
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const site = siteOf(context.getHandler());
    if (!site) return next.handle();
    const passing = Activation.passing(context, site);
    if (passing) return this.isLast(context) ? passing.toHandler(next) : next.handle();
    const call = { site, plan: KeyPlan.of(context.getClass(), site), context };
    return whenAdmitted(
      (departure) => this.early.take(context) ?? this.admit(call, departure),
      (lock, out) => this.run(call, next, lock, out),
    );
  }

  /** Acquires before Nest sends the headers of server-sent events, so that the answer can have a status of its own. */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    const site = siteOf(context.getHandler());
    if (!site) return true;
    const departure = new Departure();
    const call = { site, plan: KeyPlan.of(context.getClass(), site), context };
    try {
      this.early.keep(context, await this.admit(call, departure));
      return true;
    } finally {
      departure.end();
    }
  }

  /** True where only the handler follows. Bound globally as well, it has that of the method after it. */
  private isLast(context: ExecutionContext): boolean {
    if (boundTo(INTERCEPTORS, context.getHandler()).at(-1) === lastInterceptor) return false;
    if (Activation.of(context) || !hasAppConfig(context)) return true;
    return !this.config.getGlobalInterceptors().some((it) => it instanceof LockedInterceptor);
  }

  private async admit(call: LockedCall, departure: Departure): Promise<Admission> {
    const { plan, context } = call;
    try {
      leaveWithClient(context, departure);
      const preparing = prepareTransport(context.getType());
      if (preparing) await preparing;
      const { when } = plan.options;
      if (when) {
        const args = await plan.argumentsOf(when.length, context, this.values);
        if (!(await Reflect.apply(when, undefined, args))) return {};
      }
      const read = plan.keysOfRequest(context, this.values);
      const keys = isPromise(read) ? await read : read;
      const service = this.serviceOf(plan.options.service);
      try {
        return { lock: await acquireFor(departure, service, keys, plan.call) };
      } catch (error) {
        return await this.answerFor(error, call);
      }
    } catch (error) {
      throw this.errorFor(error, call);
    }
  }

  /** @throws the error, if it is not for `onBusy` to answer */
  private async answerFor(error: unknown, { plan, context }: LockedCall): Promise<Admission> {
    const { options } = plan;
    if (!answersBusy(options, error)) throw error;
    const count = typeof options.onBusy === 'function' ? Math.max(0, options.onBusy.length - 1) : 0;
    const args = await plan.argumentsOf(count, context, this.values);
    return { answer: await busyAnswer(options, error, undefined, args) };
  }

  private run(
    call: LockedCall,
    next: CallHandler,
    lock: HeldLock | undefined,
    out: Subscriber<unknown>,
  ): TeardownLogic {
    const { plan, context } = call;
    const isLast = this.isLast(context);
    // Nest keeps the async context of the call of handle(), and subscribes a handler's Observable in that of subscribe().
    const inside = (activation: Activation): Observable<unknown> =>
      isLast ? activation.toHandler(next) : next.handle();
    if (!lock) {
      const free = new Activation(call, undefined);
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
      streams: {
        where: plan.where,
        readBy: type === 'rpc' || type === 'ws' ? 'nobody' : 'nest',
        whenLeft: (stop) => whenAnswered(context, stop),
      },
    });
    const activation = new Activation(call, lock, underLock);
    underLock.start({
      subscribe: (observer) => activation.enter(() => inside(activation).subscribe(observer)),
      isRunning: () => activation.isRunning,
      close: () => activation.close(),
    });
    return () => underLock.leave();
  }

  /** What the client is told. Only of errors of the lock itself: those of the handler pass as they are. */
  private errorFor(error: unknown, { plan: { options }, context }: LockedCall): unknown {
    const type = context.getType<string>();
    if (type !== 'http') return toTransportError(error, type);
    const seconds = retryAfterSeconds(error, options.leaseMs);
    if (seconds !== undefined) {
      const response: unknown = context.switchToHttp().getResponse();
      this.adapterHost.httpAdapter.setHeader(response, 'Retry-After', String(seconds));
    }
    const status = this.find<LockHttpStatus>(getLockHttpToken(options.service), options.service);
    return toHttpException(error, resolveLockHttp(options.http, status));
  }

  private serviceOf(registration: string | undefined): LockService {
    let service = this.services.get(registration);
    if (!service) {
      service = this.find<LockService>(getLockServiceToken(registration), registration);
      this.services.set(registration, service);
    }
    return service;
  }

  private find<T>(token: symbol, registration = 'default'): T {
    try {
      return this.moduleRef.get<T>(token, { strict: false });
    } catch (cause) {
      const text = `There is no DistributedLockModule of the name "${registration}" in this application: import one.`;
      throw new LockConfigurationError(text, { cause });
    }
  }
}
