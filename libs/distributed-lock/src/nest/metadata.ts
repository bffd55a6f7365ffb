import type { Type } from '@nestjs/common';
import type { DiscoveryService, ModuleRef } from '@nestjs/core';
import { LockConfigurationError } from '../port/lock.errors.js';

/** Names under which Nest stores enhancers, the same in all supported versions. Nest does not export them from its root. */
const LISTS = {
  interceptors: '__interceptors__',
  pipes: '__pipes__',
  guards: '__guards__',
  filters: '__exceptionFilters__',
};
/** Metadata that `@WebSocketGateway()` sets on a class. */
export const GATEWAY = 'websockets:is_gateway';
const ROUTE_ARGUMENTS = '__routeArguments__';
const CUSTOM_ARGUMENT = '__customRouteArgs__';
const PARAMETER_TYPES = 'design:paramtypes';
/** Metadata that `@Res({ passthrough: true })` sets beside the parameters. */
const PASSTHROUGH = '__responsePassthrough__';

/** Metadata that decorators set on a method: of HTTP routes, of messages, and `@SubscribeMessage()`. */
const HTTP_MARK = 'path';
const RPC_PATTERN = 'microservices:pattern';
const RPC_MARKS = ['microservices:handler_type', RPC_PATTERN];
const WS_MARK = 'websockets:message_mapping';
const MESSAGE_MARKS = [...RPC_MARKS, WS_MARK];
/** Metadata that `@Query()`, `@Mutation()` and `@Subscription()` set on a resolver: the name of the decorator. */
const RESOLVER_TYPE = 'graphql:resolver_type';

/** The number by which Nest's metadata mean `@Param()`. */
export const ROUTE_PARAMETER = 5;
/** The numbers by which Nest's metadata mean `@Res()` and `@Next()`. */
const ANSWERING_PARAMETERS: readonly unknown[] = [1, 2];

export type HandlerKind = 'http' | 'rpc' | 'ws' | 'other';

/** One decorated parameter of a handler, read from Nest's metadata. */
export interface HandlerParameter {
  readonly index: number;
  /** Nest's number of the source of the value, such as 3 for the body; `undefined` for a custom decorator. */
  readonly type: number | undefined;
  /** The argument of the decorator: `id` in `@Param('id')`. */
  readonly data: unknown;
  readonly pipes: readonly unknown[];
  readonly factory: ((data: unknown, context: unknown) => unknown) | undefined;
  readonly schema: unknown;
  readonly metatype: unknown;
}

/** The decorators of one method of a class. A subclass that overrides the method has its own. */
export interface Handler {
  /**
   * The transport over which Nest calls this method; `undefined` for a method that only other code calls. A route that also serves
   * messages is `http`.
   */
  readonly kind: HandlerKind | undefined;
  /** True if Nest calls the method for messages or for events of a gateway, perhaps besides HTTP requests. */
  readonly servesMessages: boolean;
  /** The decorated parameters, in order of their index. */
  readonly parameters: readonly HandlerParameter[];
  /**
   * True if Nest lets the handler send the response itself: it injects the response or `next` without `passthrough`, or gets the gRPC call
   * by `@GrpcStreamCall()`.
   */
  readonly answersItself: boolean;
}

export function handlerOf(cls: AnyClass, method: string | symbol, fn: AnyFunction): Handler {
  const parameters = parametersOf(cls, method);
  const kind = kindOf(fn, parameters);
  const patterns = (Reflect.getMetadata(RPC_PATTERN, fn) ?? []) as readonly unknown[];
  const isStreamCall = patterns.some(
    (it) => (Object(it) as { streaming?: unknown }).streaming === 'pt_stream',
  );
  const isInjected =
    kind === 'http' && !isSse(fn) && parameters.some(({ type }) => ANSWERING_PARAMETERS.includes(type));
  const answersItself =
    isStreamCall || (isInjected && Reflect.getMetadata(PASSTHROUGH, cls, method) !== true);
  const servesMessages = MESSAGE_MARKS.some((mark) => Reflect.hasMetadata(mark, fn));
  return { kind, servesMessages, parameters, answersItself };
}

function parametersOf(cls: AnyClass, method: string | symbol): readonly HandlerParameter[] {
  const entries = (Reflect.getMetadata(ROUTE_ARGUMENTS, cls, method) ?? {}) as Record<
    string,
    HandlerParameter
  >;
  const types = (Reflect.getMetadata(PARAMETER_TYPES, cls.prototype as object, method) ?? []) as unknown[];
  return Object.entries(entries)
    .map(([key, { index, data, pipes, factory, schema }]) => {
      const type = key.includes(CUSTOM_ARGUMENT) ? undefined : Number.parseInt(key, 10);
      return { index, type, data, pipes: pipes ?? [], factory, schema, metatype: types[index] };
    })
    .sort((a, b) => a.index - b.index);
}

function kindOf(fn: AnyFunction, parameters: readonly HandlerParameter[]): HandlerKind | undefined {
  if (Reflect.hasMetadata(HTTP_MARK, fn)) return 'http';
  if (RPC_MARKS.some((mark) => Reflect.hasMetadata(mark, fn))) return 'rpc';
  if (Reflect.hasMetadata(WS_MARK, fn)) return 'ws';
  const isOther = Reflect.getMetadataKeys(fn).some((key) => String(key).startsWith('graphql:'));
  return isOther || parameters.length > 0 ? 'other' : undefined;
}

/** True for the resolver of a GraphQL subscription. GraphQL reads its events after the resolver has returned. */
export function isSubscription(fn: object): boolean {
  return Reflect.getMetadata(RESOLVER_TYPE, fn) === 'Subscription';
}

export function isSse(fn: object): boolean {
  return Reflect.hasMetadata('__sse__', fn);
}

/** The enhancers (guards, interceptors, pipes or filters) that are bound to a class or a method, outermost first. */
export const enhancers = {
  of: (kind: keyof typeof LISTS, target: object): readonly unknown[] =>
    (Reflect.getMetadata(LISTS[kind], target) ?? []) as readonly unknown[],
  putFirst(kind: keyof typeof LISTS, enhancer: unknown, target: object): void {
    const others = enhancers.of(kind, target).filter((it) => it !== enhancer);
    Reflect.defineMetadata(LISTS[kind], [enhancer, ...others], target);
  },
  putLast(kind: keyof typeof LISTS, enhancer: unknown, target: object): void {
    const others = enhancers.of(kind, target).filter((it) => it !== enhancer);
    Reflect.defineMetadata(LISTS[kind], [...others, enhancer], target);
  },
};

export type AnyClass = abstract new (...args: never[]) => unknown;
export type AnyFunction = (...args: never[]) => unknown;

/**
 * Refuses the use as a standard decorator of JavaScript, which is called with a value and a context. Nest reads metadata that
 * only legacy decorators set.
 *
 * @param context the second argument: for a legacy decorator the name of the member, or nothing
 * @throws LockConfigurationError for the context object of a standard decorator
 */
export function refuseStandard(decorator: string, context: unknown): void {
  if (typeof context !== 'object' || context === null || !('kind' in context)) return;
  const { name = 'a class' } = context as { readonly name?: string | symbol };
  throw new LockConfigurationError(
    `${decorator} on ${String(name)}: this code is compiled with standard decorators, which Nest cannot read. Set "experimentalDecorators": true and "emitDecoratorMetadata": true in compilerOptions of tsconfig.json; with SWC jsc.transform.legacyDecorator and decoratorMetadata.`,
  );
}

/**
 * Wraps a method: each call of the wrapper calls `call`. The wrapper has the name, the length and the metadata of `original`,
 * which Swagger, schedulers and others read, so that decorators above it find what decorators below have set.
 */
export function wrapMethod(
  original: AnyFunction,
  call: (self: unknown, args: readonly unknown[]) => unknown,
): AnyFunction {
  const wrapped = new Proxy(original, {
    apply: (_target, self: unknown, args: readonly unknown[]) => call(self, args),
  });
  for (const name of Reflect.getOwnMetadataKeys(original)) {
    Reflect.defineMetadata(name, Reflect.getOwnMetadata(name, original), wrapped);
  }
  return wrapped;
}

/**
 * Finds the singleton provider of a token, in any module of the application, or with `strict` only in that of `moduleRef`;
 * `undefined` if there is none.
 */
export function findProvider<T>(
  moduleRef: ModuleRef,
  token: symbol | Type<T>,
  strict = false,
): T | undefined {
  try {
    return moduleRef.get<T>(token, { strict });
  } catch {
    return undefined;
  }
}

export function discoveredClasses(discovery: DiscoveryService): readonly DiscoveredClass[] {
  const wrappers = [...discovery.getControllers(), ...discovery.getProviders()];
  return wrappers.flatMap((wrapper) => {
    // Take the class from the wrapper. The instance of a request-scoped class is an empty shell.
    const instance = wrapper.instance as object | null | undefined;
    const cls: unknown = wrapper.isNotMetatype ? instance?.constructor : wrapper.metatype;
    if (typeof cls !== 'function' || typeof cls.prototype !== 'object') return [];
    return { cls: cls as unknown as PrototypedClass, wrapper };
  });
}

type PrototypedClass = AnyClass & { readonly prototype: object };

/** A controller or a provider of the application. */
interface DiscoveredClass {
  readonly cls: PrototypedClass;
  readonly wrapper: ReturnType<DiscoveryService['getProviders']>[number];
}

type Methods = readonly (readonly [name: string | symbol, fn: unknown])[];

/** The methods of a class's instances, with inherited ones and those named by a symbol. Calls no getter. */
export function methodsOf(cls: AnyClass): Methods {
  const methods = new Map<string | symbol, unknown>();
  for (
    let it = cls.prototype as object | null;
    it && it !== Object.prototype;
    it = Object.getPrototypeOf(it)
  ) {
    const inherited = functionsOf(it).filter(([name]) => !methods.has(name) && name !== 'constructor');
    for (const [name, fn] of inherited) methods.set(name, fn);
  }
  return [...methods];
}

/**
 * The functions that are own properties of an object: the static methods of a class, or the methods of a prototype. Calls no
 * getter.
 */
export function functionsOf(owner: object): Methods {
  return Reflect.ownKeys(owner).flatMap((name) => {
    const value: unknown = Object.getOwnPropertyDescriptor(owner, name)?.value;
    return typeof value === 'function' ? [[name, value] as const] : [];
  });
}
