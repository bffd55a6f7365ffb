import type { ArgumentMetadata, ExecutionContext, PipeTransform, Type } from '@nestjs/common';
import { ContextIdFactory, type ApplicationConfig, type ModuleRef } from '@nestjs/core';
import { PIPES, type HandlerKind, type HandlerParameter } from './nest-metadata.js';

type Named = Readonly<Record<string, unknown>>;
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

/** Reads parameters of a handler as Nest is going to, before it does: extracted, then over their pipes. */
export class HandlerValues {
  constructor(
    private readonly moduleRef: ModuleRef,
    private readonly config: ApplicationConfig,
  ) {}

  /** @throws what the pipes throw: an invalid value is refused before any lock is taken */
  async read(parameter: HandlerParameter, context: ExecutionContext): Promise<unknown> {
    let value = await extract(parameter, context);
    const { metatype, data, schema } = parameter;
    const type = PIPE_TYPES[parameter.type ?? -1] ?? 'custom';
    for (const pipe of await this.pipesOf(parameter, context)) {
      value = await pipe.transform(value, { type, metatype, data, schema } as ArgumentMetadata);
    }
    return value;
  }

  /** Looked up at each call: an application may still add global pipes after its modules are built. */
  private async pipesOf(
    parameter: HandlerParameter,
    context: ExecutionContext,
  ): Promise<readonly PipeTransform[]> {
    const isPiped = parameter.type === undefined || parameter.type in PIPE_TYPES;
    // On other transports Nest applies them to every parameter.
    if (context.getType() === 'http' && !isPiped) return [];
    const contextId = ContextIdFactory.getByRequest(context.getArgByIndex<Record<string, unknown>>(0));
    const scoped = this.config
      .getGlobalRequestPipes()
      .map((wrapper) => wrapper.getInstanceByContextId(contextId).instance);
    const bound = [context.getClass(), context.getHandler()].flatMap(
      (target) => (Reflect.getMetadata(PIPES, target) ?? []) as readonly unknown[],
    );
    const own = [...bound, ...parameter.pipes].filter((pipe) => pipe !== undefined && pipe !== null);
    const resolved = await Promise.all(own.map((pipe) => this.pipe(pipe, contextId)));
    return [...this.config.getGlobalPipes(), ...scoped, ...resolved];
  }

  /** The instance that Nest has built for the handler's module; request-scoped ones belong to the request. */
  private async pipe(pipe: unknown, contextId: { readonly id: number }): Promise<PipeTransform> {
    if (typeof pipe !== 'function') return pipe as PipeTransform;
    const token = pipe as Type<PipeTransform>;
    try {
      return await this.moduleRef.resolve(token, contextId, { strict: true });
    } catch {
      // Bound globally, this interceptor lives in another module than the handler.
      return await this.moduleRef.resolve(token, contextId, { strict: false });
    }
  }
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
