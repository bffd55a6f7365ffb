import {
  applyDecorators,
  type CallHandler,
  type ExecutionContext,
  Inject,
  Injectable,
  type NestInterceptor,
  SetMetadata,
  UseInterceptors,
} from '@nestjs/common';
import { ApplicationConfig, HttpAdapterHost, ModuleRef } from '@nestjs/core';
import { lastValueFrom, Observable } from 'rxjs';
import { discardStream, streamKindOf } from '../lock/streams/held-stream.js';
import { ClientLeftError } from '../locked/client-errors.js';
import { keyOf } from '../lock/request/key-claim.js';
import { keyPlanOf, type KeySite, newKeySite } from '../keys/key-plan.js';
import { KeyTemplate } from '../keys/key-template.js';
import { answerTo } from '../nest/answers.js';
import { HandlerValues } from '../nest/handler-values.js';
import {
  type AnyClass,
  type AnyFunction,
  handlerOf,
  isSse,
  isSubscription,
  refuseStandard,
} from '../nest/metadata.js';
import { declaringClass } from '../nest/parameter-names.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { checkOptions, type OptionRule, type OptionRules } from '../port/option-checks.js';
import { BodyWriter, bodyOf, type StoredBody } from './stored-body.js';
import { isReplayedFailure, ONCE_RULES, type OnceOptions, OnceService } from './once.service.js';

/** Options of `@Once`. */
export interface OnceHandlerOptions extends Omit<OnceOptions, 'fingerprint' | 'signal'> {
  /**
   * The payload by which requests with the same key are compared: a function that gets the request and returns the payload, or `'body'`
   * for the body of an HTTP request. A message, an event of a gateway and a field of GraphQL have no request and no body: both are its
   * data, or its arguments. Default: none, so that all requests with a key count as the same.
   */
  readonly fingerprint?: 'body' | ((request: any) => unknown);
}

const FINGERPRINT: OptionRule = [
  (value) => value === 'body' || typeof value === 'function',
  "'body' or a function of the request",
];
const { keepForMs, waitMs, leaseMs, rememberFailure } = ONCE_RULES;
const RULES: OptionRules<OnceHandlerOptions> = {
  keepForMs,
  waitMs,
  leaseMs,
  rememberFailure,
  fingerprint: FINGERPRINT,
};

/** One `@Once` as written in the source. */
interface OnceSite extends KeySite {
  readonly once: OnceHandlerOptions;
}

const SITE = Symbol.for('nestjs-distributed-lock/once');

/**
 * Runs a handler one time for each key. Repeated requests get the stored response: body, status, and the headers that the handler has set,
 * but no cookies, and the header `Idempotent-Replayed: true`.
 *
 * A request that comes while another one with its key is handled waits for that response. A request gets 409 with `Retry-After`
 * after waiting for `waitMs`, 422 if its fingerprint differs, 400 if a part of the key is missing. Guards and interceptors of the
 * class run for each request, and a `@UseInterceptors` above `@Once` only with the handler. `@Once` does not
 * store what a `ClassSerializerInterceptor` hides. Other interceptors of the class see stored objects without their class.
 *
 * For handlers only: HTTP, messages, GraphQL. Elsewhere call `once.run`.
 *
 * @param key a template as `@Locked` takes it, which makes one key
 * @throws LockConfigurationError for wrong options when the class is loaded; at boot for an unknown name in the template, and for a
 * handler that writes its response itself or goes on producing it
 * @example
 * ```ts
 * import { Once } from 'nestjs-distributed-lock/once';
 *
 * class Orders {@Once('order:<headers.idempotency-key>', { keepForMs: 86_400_000, fingerprint: 'body' }) async create(): Promise<void> {}}
 * ```
 */
export function Once(key: string, options: OnceHandlerOptions): MethodDecorator {
  const template = KeyTemplate.compile(key);
  return (target, method, descriptor: PropertyDescriptor | undefined) => {
    refuseStandard('@Once', method);
    const declaredIn = declaringClass(target);
    const where = `@Once on ${declaredIn.name}.${String(method)}`;
    checkOptions(where, options, RULES);
    if (template.placeholders.some(({ isList }) => isList)) {
      throw new LockConfigurationError(`${where}: "${key}" makes several keys, and a result has one.`);
    }
    if (options.keepForMs === undefined) throw new LockConfigurationError(`${where}: keepForMs is missing.`);
    const original = descriptor?.value as AnyFunction | undefined;
    if (!original) throw new LockConfigurationError(`${where}: put it on a method.`);
    const written = { decorator: '@Once', key: [template] };
    const site: OnceSite = { ...newKeySite({ target, method, original }, written), once: options };
    applyDecorators(SetMetadata(SITE, site), UseInterceptors(OnceInterceptor))(
      target,
      method,
      descriptor as PropertyDescriptor,
    );
  };
}

function siteOf(fn: unknown): OnceSite | undefined {
  return typeof fn === 'function' ? (Reflect.getMetadata(SITE, fn) as OnceSite | undefined) : undefined;
}

/** Whether a method has `@Once` and Nest calls it for messages. */
export function servesMessagesOnce(
  cls: AnyClass,
  [method, fn]: readonly [name: string | symbol, fn: unknown],
): boolean {
  return siteOf(fn) !== undefined && handlerOf(cls, method, fn as AnyFunction).servesMessages;
}

/**
 * Checks the `@Once` of a method, if it has one.
 *
 * @throws LockConfigurationError for an unknown name in its key, and for a method that has no response to store
 */
export function checkOnce(cls: AnyClass, [method, fn]: readonly [name: string | symbol, fn: unknown]): void {
  const site = siteOf(fn);
  if (!site) return;
  const refuse = (why: string): never => {
    throw new LockConfigurationError(`@Once on ${cls.name}.${String(method)}: ${why}`);
  };
  const handler = fn as AnyFunction;
  const { kind, answersItself } = handlerOf(cls, method, handler);
  if (!kind) refuse('this is no handler. Call once.run in it.');
  if (isSse(handler) || isSubscription(handler)) refuse('its response goes on, and cannot be stored.');
  if (answersItself) {
    refuse('it writes its response itself, so that there is none to store. Use @Res({ passthrough: true }).');
  }
  keyPlanOf(cls, site);
}

/**
 * A response as `@Once` stores it. The answer to a message has neither status nor headers. A message may replay the response to a request,
 * and the other way round, because one route may serve both under the same keys.
 */
interface StoredResponse extends StoredBody {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, Header>>;
}

type Header = number | string | readonly string[];

/** The members that responses of Express and Fastify share. */
interface Response {
  readonly statusCode: number;
  getHeaders(): Readonly<Record<string, Header | undefined>>;
}

/** Headers that are not stored: cookies are for one client, and the length is computed again. */
const NOT_STORED: readonly string[] = [
  'set-cookie',
  'content-length',
  'transfer-encoding',
  'date',
  'connection',
];

/** Runs a handler with `@Once` under `OnceService`. */
@Injectable()
export class OnceInterceptor implements NestInterceptor {
  private readonly values: HandlerValues;
  private readonly bodies: BodyWriter;

  constructor(
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
    @Inject(ApplicationConfig) config: ApplicationConfig,
    @Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost,
  ) {
    this.values = new HandlerValues(moduleRef, config);
    this.bodies = new BodyWriter(OnceInterceptor, this.values, config);
  }

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const site = siteOf(context.getHandler());
    if (!site) return next.handle();
    return new Observable((subscriber) => {
      // If the client disconnects or an outer timeout fires while the request waits, stop waiting. A handler that runs already goes on,
      // and its response is stored.
      const leaving = new AbortController();
      const leave = (): void => leaving.abort(new ClientLeftError());
      const answer = answerTo(context);
      const stopWatching = answer?.whenOver(() => answer.wasLeft() && leave());
      this.answer({ context, next, site, signal: leaving.signal }).then(
        (body) => {
          subscriber.next(body);
          subscriber.complete();
        },
        (error) => subscriber.error(error),
      );
      return () => {
        stopWatching?.();
        leave();
      };
    });
  }

  private async answer(request: {
    readonly context: ExecutionContext;
    readonly next: CallHandler;
    readonly site: OnceSite;
    readonly signal: AbortSignal;
  }): Promise<unknown> {
    const { context, next, site, signal } = request;
    const { fingerprint, ...options } = site.once;
    const { keys } = await keyPlanOf(context.getClass(), site).keysOfRequest(context, this.values);
    const [key = ''] = [keys].flat().map(keyOf);
    const call = { ...options, signal, fingerprint: fingerprintOf(fingerprint, context) };
    const once = this.moduleRef.get(OnceService, { strict: false });
    const response =
      context.getType() === 'http' ? context.switchToHttp().getResponse<Response>() : undefined;
    // The first caller gets the handler's own result, and not what is stored of it.
    let result: unknown;
    const work = async (): Promise<StoredResponse> => {
      const before = response?.getHeaders() ?? {};
      result = await lastValueFrom(next.handle(), { defaultValue: undefined });
      if (response && streamKindOf(result)) {
        discardStream(result);
        throw streamError(site, context);
      }
      const head = response && { status: response.statusCode, headers: headersSince(before, response) };
      return { ...head, ...(await this.bodies.stored(result, context)) };
    };
    try {
      const { value, isReplay } = await once.outcomeOf(key, call, work);
      if (!isReplay) return result;
      if (response) this.replay(response, value);
      return bodyOf(value);
    } catch (error) {
      if (response && isReplayedFailure(error)) this.mark(response);
      throw error;
    }
  }

  private replay(response: Response, { status, headers }: StoredResponse): void {
    const { httpAdapter } = this.adapterHost;
    if (status !== undefined) httpAdapter.status(response, status);
    for (const [name, value] of Object.entries(headers ?? {}))
      httpAdapter.setHeader(response, name, value as string);
    this.mark(response);
  }

  private mark(response: Response): void {
    this.adapterHost.httpAdapter.setHeader(response, 'Idempotent-Replayed', 'true');
  }
}

function fingerprintOf(fingerprint: OnceHandlerOptions['fingerprint'], context: ExecutionContext): unknown {
  if (fingerprint === undefined) return undefined;
  const request = requestOf(context);
  if (typeof fingerprint === 'function') return fingerprint(request);
  const body = context.getType() === 'http' ? (request as { readonly body?: unknown }).body : request;
  // `null`, so that a request without a body differs from one with a body.
  return body ?? null;
}

function requestOf(context: ExecutionContext): unknown {
  switch (context.getType<string>()) {
    case 'http':
      return context.switchToHttp().getRequest();
    case 'ws':
      return context.switchToWs().getData();
    case 'graphql':
      return context.getArgByIndex(1);
    default:
      return context.switchToRpc().getData();
  }
}

function headersSince(
  before: ReturnType<Response['getHeaders']>,
  response: Response,
): Readonly<Record<string, Header>> {
  const entries = Object.entries(response.getHeaders()).filter(
    ([name, value]) => value !== undefined && value !== before[name] && !NOT_STORED.includes(name),
  );
  return Object.fromEntries(entries) as Readonly<Record<string, Header>>;
}

function streamError({ method }: OnceSite, context: ExecutionContext): LockConfigurationError {
  const where = `${context.getClass().name}.${String(method)}`;
  return new LockConfigurationError(
    `@Once on ${where}: it returned a stream, which cannot be stored. Return the data itself.`,
  );
}
