import type { ArgumentMetadata, ExecutionContext, PipeTransform, Type } from '@nestjs/common';
import { ContextIdFactory, type ApplicationConfig, type ContextId, type ModuleRef } from '@nestjs/core';
import { hasAppConfig } from '../nest/app-config.guard.js';
import { PIPES, type HandlerKind, type HandlerParameter } from '../nest/nest-metadata.js';

type Named = Readonly<Record<string, unknown>>;
type BoundPipe = PipeTransform | PromiseLike<PipeTransform> | Type<PipeTransform>;
type Reader = (
  http: { readonly req: Named; readonly res: unknown; readonly next: unknown },
  name?: string,
) => unknown;

/** By Nest's number of the source. The sources that are missing here are filled by interceptors inside the lock. */
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

/** The other transports give what they have as plain arguments: by Nest's number of the source, where it stands. */
const ARGUMENTS: Readonly<Record<Exclude<HandlerKind, 'http'>, Readonly<Record<number, number>>>> = {
  rpc: { 3: 0, 6: 1, 9: 2 },
  ws: { 0: 0, 3: 1 },
  other: { 0: 0, 3: 1, 1: 2, 2: 3 },
};

const PIPE_TYPES: Readonly<Record<number, ArgumentMetadata['type']>> = { 3: 'body', 4: 'query', 5: 'param' };
/** True for what is there before the handler and the interceptors inside the lock have started. */
export function isReadable({ type, factory }: HandlerParameter, kind: HandlerKind): boolean {
  const sources: object = kind === 'http' ? HTTP_SOURCES : ARGUMENTS[kind];
  return factory !== undefined || (type !== undefined && type in sources);
}

/** What Nest injects as `REQUEST` for a message. */
class MessageRequest {
  constructor(
    readonly data: unknown,
    readonly context: unknown,
  ) {}

  getData(): unknown {
    return this.data;
  }

  getContext(): unknown {
    return this.context;
  }
}

/** Reads parameters of a handler as Nest is going to, before it does: extracted, then over their pipes. */
export class HandlerValues {
  private readonly bound = new WeakMap<HandlerParameter, readonly BoundPipe[]>();
  private readonly contextIds = new WeakMap<ExecutionContext, ContextId>();
  private readonly built = new Map<Type<PipeTransform>, PipeTransform | undefined>();

  constructor(
    private readonly moduleRef: ModuleRef,
    private readonly config: ApplicationConfig,
  ) {}

  /** The value, or a promise of it. @throws what the pipes throw: an invalid value is refused before any lock is taken */
  read(parameter: HandlerParameter, context: ExecutionContext): unknown {
    const { type: source = -1, metatype, data, schema } = parameter;
    const metadata = { type: PIPE_TYPES[source] ?? 'custom', metatype, data, schema } as ArgumentMetadata;
    return this.pipesOf(parameter, context).reduce(
      (value: unknown, bound) => whenThere(value, (it) => this.transform(it, bound, metadata, context)),
      extract(parameter, context),
    );
  }

  private transform(
    value: unknown,
    bound: BoundPipe,
    metadata: ArgumentMetadata,
    context: ExecutionContext,
  ): unknown {
    const pipe = isClass(bound) ? (this.lasting(bound) ?? this.resolve(bound, context)) : bound;
    return whenThere(pipe, (it) => it.transform(value, metadata));
  }

  /** Looked up at each call: an application may still add global pipes after its modules are built. */
  private pipesOf(parameter: HandlerParameter, context: ExecutionContext): readonly BoundPipe[] {
    const isPiped = parameter.type === undefined || parameter.type in PIPE_TYPES;
    // On other transports Nest applies them to every parameter.
    if (context.getType() === 'http' && !isPiped) return [];
    const bound = this.boundTo(parameter, context);
    if (!hasAppConfig(context)) return bound;
    return [...this.config.getGlobalPipes(), ...this.scoped(context), ...bound];
  }

  /** Global ones that each request has of its own: that of this request where it can be found, otherwise one like it. */
  private scoped(context: ExecutionContext): readonly BoundPipe[] {
    return this.config.getGlobalRequestPipes().map((wrapper) => {
      const contextId = this.contextIdOf(context);
      const { instance, isResolved } = wrapper.getInstanceByContextId(contextId);
      if (isResolved) return instance as PipeTransform;
      return this.moduleRef.resolve<PipeTransform>(wrapper.token as symbol, contextId, { strict: false });
    });
  }

  /** Nest keeps that of a message to itself: such a call has one of its own. */
  private contextIdOf(context: ExecutionContext): ContextId {
    const [first, second, third] = context.getArgs<[unknown, unknown, unknown]>();
    const type = context.getType<string>();
    if (type === 'graphql') return ContextIdFactory.getByRequest(third as Named, ['req']);
    if (type !== 'rpc') return ContextIdFactory.getByRequest(first as Named);
    let contextId = this.contextIds.get(context);
    if (!contextId) {
      const request = new MessageRequest(first, second);
      contextId = ContextIdFactory.getByRequest(request);
      this.contextIds.set(context, contextId);
      this.moduleRef.registerRequestByContextId(request, contextId);
    }
    return contextId;
  }

  /** To the class, the method and the parameter, which is one of this very class and method. */
  private boundTo(parameter: HandlerParameter, context: ExecutionContext): readonly BoundPipe[] {
    let bound = this.bound.get(parameter);
    if (!bound) {
      const around = [context.getClass(), context.getHandler()].flatMap(
        (target) => (Reflect.getMetadata(PIPES, target) ?? []) as readonly unknown[],
      );
      bound = [...around, ...parameter.pipes].filter((it) => it !== undefined && it !== null) as BoundPipe[];
      this.bound.set(parameter, bound);
    }
    return bound;
  }

  /** The one that serves all requests; `undefined` where each has its own, and for one of another module. */
  private lasting(token: Type<PipeTransform>): PipeTransform | undefined {
    if (!this.built.has(token)) this.built.set(token, this.find(token));
    return this.built.get(token);
  }

  private find(token: Type<PipeTransform>): PipeTransform | undefined {
    try {
      return this.moduleRef.get(token, { strict: true });
    } catch {
      return undefined;
    }
  }

  /** The instance that Nest has built for the handler's module; request-scoped ones belong to the request. */
  private async resolve(token: Type<PipeTransform>, context: ExecutionContext): Promise<PipeTransform> {
    const contextId = this.contextIdOf(context);
    try {
      return await this.moduleRef.resolve(token, contextId, { strict: true });
    } catch {
      // Bound globally, this interceptor lives in another module than the handler.
      return await this.moduleRef.resolve(token, contextId, { strict: false });
    }
  }
}

/** At once where `value` is there already: a promise costs on every request, and most values need none. */
export function whenThere<T, R>(value: T | PromiseLike<T>, then: (value: T) => R): R | PromiseLike<R> {
  return isPromise(value) ? value.then(then) : then(value);
}

export function isPromise<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof (value as PromiseLike<T> | undefined)?.then === 'function';
}

function isClass(pipe: BoundPipe): pipe is Type<PipeTransform> {
  return typeof pipe === 'function';
}

function extract({ type = -1, factory, data }: HandlerParameter, context: ExecutionContext): unknown {
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

/** A resolver of references has no arguments of its own: what follows stands one place further left. */
function argumentsOf(context: ExecutionContext): readonly unknown[] {
  const args = context.getArgs<unknown[]>();
  return context.getType<string>() === 'graphql' && args.length === 3
    ? args.toSpliced(1, 0, undefined)
    : args;
}

/** The value behind `<source.…>`, as it came with the request and over no pipe. */
export function readSource(source: string, context: ExecutionContext): unknown {
  const type = context.getType<string>();
  const [first, second, third] = argumentsOf(context);
  if (source === 'data') return type === 'ws' ? second : first;
  if (source === 'args') return second;
  const request = type === 'http' ? first : (third as { readonly req?: unknown } | undefined)?.req;
  return property(request, source);
}

function property(from: unknown, name: string | undefined): unknown {
  return name === undefined ? from : (from as Named | undefined)?.[name];
}

/** Nest's rule for bodies: of a list, a buffer or a primitive only what the client can have sent. */
function ownOrDeclared(body: unknown, name: string): unknown {
  if (body === undefined || body === null) return body;
  const isPlain = typeof body === 'object' && !Array.isArray(body) && !ArrayBuffer.isView(body);
  return isPlain || Object.hasOwn(Object(body) as object, name) ? (body as Named)[name] : undefined;
}
