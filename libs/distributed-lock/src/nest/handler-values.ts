// Reads what a handler will get, before Nest reads it: its parameters through their pipes, and parts of the request. For keys,
// and for functions of the handler's arguments.
import type { ArgumentMetadata, ExecutionContext, PipeTransform, Type } from '@nestjs/common';
import { type ApplicationConfig, type ContextId, ContextIdFactory, type ModuleRef } from '@nestjs/core';
import { andThen, type MaybePromise, promiseOf } from '../common/promises.js';
import { hasAppConfig } from './app-config.js';
import { enhancers, findProvider, type HandlerKind, type HandlerParameter } from './metadata.js';

/**
 * How to read each source of an HTTP parameter from the request. The index is Nest's number of the source. Sources that are
 * missing here get their values from interceptors inside the lock, so no key can contain them.
 */
const HTTP_SOURCES: Readonly<Record<number, Reader>> = {
  0: ({ req }) => req,
  1: ({ res }) => res,
  2: ({ next }) => next,
  3: ({ req }, name) => (name ? ownOrDeclared(req['body'], name) : req['body']),
  4: ({ req }, name) => property(req['query'], name),
  5: ({ req }, name) => property(req['params'], name),
  6: ({ req }, name) => property(req['headers'], name?.toLowerCase()),
  7: ({ req }) => req['session'],
  10: ({ req }, name) => property(req['hosts'] ?? {}, name),
  11: ({ req }) => req['ip'],
};

/**
 * On other transports a parameter's value is an argument of the handler. Maps Nest's number of the source to the position of that
 * argument.
 */
const ARGUMENTS: Readonly<Record<Exclude<HandlerKind, 'http'>, Readonly<Record<number, number>>>> = {
  rpc: { 3: 0, 6: 1, 9: 2 },
  ws: { 0: 0, 3: 1 },
  other: { 0: 0, 3: 1, 1: 2, 2: 3 },
};

const PIPE_TYPES: Readonly<Record<number, ArgumentMetadata['type']>> = { 3: 'body', 4: 'query', 5: 'param' };

/** Reads the parameters of a handler before Nest does, in the same way: extracts the value, then applies the pipes. */
export class HandlerValues {
  private readonly bound = new WeakMap<HandlerParameter, readonly BoundPipe[]>();
  private readonly contextIds = new WeakMap<ExecutionContext, ContextId>();
  private readonly built = new Map<Type, unknown>();

  constructor(
    private readonly moduleRef: ModuleRef,
    private readonly config: ApplicationConfig,
  ) {}

  /**
   * Reads the value of one parameter.
   *
   * @throws the error of a pipe, so that an invalid value is refused before any lock is acquired
   */
  read(parameter: HandlerParameter, context: ExecutionContext): MaybePromise<unknown> {
    const { type: source = -1, metatype, data, schema } = parameter;
    const metadata = { type: PIPE_TYPES[source] ?? 'custom', metatype, data, schema } as ArgumentMetadata;
    const pass = (value: MaybePromise<unknown>, pipe: BoundPipe): MaybePromise<unknown> =>
      andThen(value, (it) =>
        andThen(
          isClass(pipe) ? this.instanceOf(pipe, context) : pipe,
          (instance) => instance.transform(it, metadata) as unknown,
        ),
      );
    return this.pipesOf(parameter, context).reduce(pass, extract(parameter, context));
  }

  /** The object whose method handles the request. `undefined` if Nest knows it by another token than its class. */
  async handlerOf(context: ExecutionContext): Promise<unknown> {
    return promiseOf(() => this.instanceOf(context.getClass<unknown>(), context)).catch(() => undefined);
  }

  /**
   * The pipes for a parameter, outermost first. Global pipes are looked up at each call, because an application may add some
   * late.
   */
  private pipesOf(parameter: HandlerParameter, context: ExecutionContext): readonly BoundPipe[] {
    const isPiped = parameter.type === undefined || parameter.type in PIPE_TYPES;
    // On HTTP Nest applies pipes only to these sources and to custom decorators. On other transports it applies them to every
    // parameter.
    if (context.getType() === 'http' && !isPiped) return [];
    const bound = this.enhancersOf(parameter, context);
    if (!hasAppConfig(context)) return bound;
    return [...this.config.getGlobalPipes(), ...this.scoped(context), ...bound];
  }

  /** Request-scoped global pipes: the instance that Nest has made for this request, if it can be found, otherwise a new one. */
  private scoped(context: ExecutionContext): readonly BoundPipe[] {
    return this.config.getGlobalRequestPipes().map((wrapper) => {
      const contextId = this.contextIdOf(context);
      const { instance, isResolved } = wrapper.getInstanceByContextId(contextId);
      if (isResolved) return instance as PipeTransform;
      return this.moduleRef.resolve<PipeTransform>(wrapper.token as symbol, contextId, { strict: false });
    });
  }

  /**
   * The id under which Nest resolves request-scoped providers for this request. For a message Nest does not reveal that id, so
   * this method makes a new one.
   */
  private contextIdOf(context: ExecutionContext): ContextId {
    const [first, second, third] = context.getArgs<[unknown, unknown, unknown]>();
    const type = context.getType<string>();
    if (type === 'graphql') return ContextIdFactory.getByRequest(third as Named, ['req']);
    if (type !== 'rpc') return ContextIdFactory.getByRequest(first as Named);
    let contextId = this.contextIds.get(context);
    if (!contextId) {
      // For a message, `REQUEST` is injected as an object of this shape.
      const request = { data: first, context: second, getData: () => first, getContext: () => second };
      contextId = ContextIdFactory.getByRequest(request);
      this.contextIds.set(context, contextId);
      this.moduleRef.registerRequestByContextId(request, contextId);
    }
    return contextId;
  }

  /**
   * The pipes bound to the class, the method and the parameter. Cached by parameter, because a parameter belongs to one class and
   * one method.
   */
  private enhancersOf(parameter: HandlerParameter, context: ExecutionContext): readonly BoundPipe[] {
    let bound = this.bound.get(parameter);
    if (!bound) {
      const around = [context.getClass(), context.getHandler()].flatMap((it) => enhancers.of('pipes', it));
      bound = [...around, ...parameter.pipes].filter((it) => it !== undefined && it !== null) as BoundPipe[];
      this.bound.set(parameter, bound);
    }
    return bound;
  }

  /**
   * The singleton of a class. If the class is request-scoped, or belongs to another module, resolves an instance for the request.
   */
  instanceOf<T>(token: Type<T>, context: ExecutionContext): MaybePromise<T> {
    if (!this.built.has(token)) this.built.set(token, findProvider(this.moduleRef, token, true));
    return (this.built.get(token) as T | undefined) ?? this.resolve(token, context);
  }

  private async resolve<T>(token: Type<T>, context: ExecutionContext): Promise<T> {
    const contextId = this.contextIdOf(context);
    const resolveIn = (strict: boolean): Promise<T> => this.moduleRef.resolve(token, contextId, { strict });
    // First look in the module of the handler, then in all: a class of a global interceptor belongs to another module.
    return resolveIn(true).catch(() => resolveIn(false));
  }
}

type Named = Readonly<Record<string, unknown>>;
type BoundPipe = PipeTransform | PromiseLike<PipeTransform> | Type<PipeTransform>;
type Reader = (
  http: { readonly req: Named; readonly res: unknown; readonly next: unknown },
  name?: string,
) => unknown;

/** Returns whether the parameter's value exists before the interceptors inside the lock start, so that a key can contain it. */
export function isReadable({ type, factory }: HandlerParameter, kind: HandlerKind): boolean {
  const sources: object = kind === 'http' ? HTTP_SOURCES : ARGUMENTS[kind];
  return factory !== undefined || (type !== undefined && type in sources);
}

function isClass(pipe: BoundPipe): pipe is Type<PipeTransform> {
  return typeof pipe === 'function';
}

function extract(
  { type = -1, factory, data }: Partial<HandlerParameter>,
  context: ExecutionContext,
): unknown {
  if (factory) return factory(data, context);
  const name = typeof data === 'string' ? data : undefined;
  const transport = context.getType<string>();
  if (transport === 'http') {
    const [req, res, next] = context.getArgs<[Named, unknown, unknown]>();
    return HTTP_SOURCES[type]?.({ req, res, next }, name);
  }
  const kind = transport === 'rpc' || transport === 'ws' ? transport : 'other';
  return property(argumentsOf(context)[ARGUMENTS[kind][type] ?? -1], name);
}

/**
 * The arguments of a handler by the usual positions. In GraphQL federation a reference resolver has no `args`, and Nest passes it
 * the later arguments one position earlier.
 */
function argumentsOf(context: ExecutionContext): readonly unknown[] {
  const args = context.getArgs<unknown[]>();
  return context.getType<string>() === 'graphql' && args.length === 3
    ? args.toSpliced(1, 0, undefined)
    : args;
}

/**
 * Reads one source of the request as it was sent, without applying pipes.
 *
 * @param type Nest's number of the source; `undefined` for the user that a guard has put on the request
 */
export function readSource(type: number | undefined, context: ExecutionContext): unknown {
  if (type !== undefined) return extract({ type }, context);
  const [first, , third] = argumentsOf(context);
  const request = context.getType() === 'http' ? first : (third as Named | undefined)?.['req'];
  return property(request, 'user');
}

function property(from: unknown, name: string | undefined): unknown {
  return name === undefined ? from : (from as Named | undefined)?.[name];
}

/** Reads a property of a body by Nest's own rule: of an array, a buffer or a primitive only own properties count. */
function ownOrDeclared(body: unknown, name: string): unknown {
  if (body === undefined || body === null) return body;
  const isPlain = typeof body === 'object' && !Array.isArray(body) && !ArrayBuffer.isView(body);
  return isPlain || Object.hasOwn(Object(body) as object, name) ? (body as Named)[name] : undefined;
}
