/** Metadata keys of Nest that are the same in all supported versions. Nest does not export them from its root. */
export const INTERCEPTORS = '__interceptors__';
export const PIPES = '__pipes__';
export const GUARDS = '__guards__';
export const FILTERS = '__exceptionFilters__';
/** `@WebSocketGateway()` sets it on the class. */
export const GATEWAY = 'websockets:is_gateway';
const ROUTE_ARGUMENTS = '__routeArguments__';
const CUSTOM_ARGUMENT = '__customRouteArgs__';
const PARAMETER_TYPES = 'design:paramtypes';
/** Set beside the parameters by `@Res({ passthrough: true })`. */
const PASSTHROUGH = '__responsePassthrough__';

/** Set on the function by the decorators of routes, of messages, and by `@SubscribeMessage()`. */
const HTTP_MARK = 'path';
const RPC_PATTERN = 'microservices:pattern';
const RPC_MARKS = ['microservices:handler_type', RPC_PATTERN];
const WS_MARK = 'websockets:message_mapping';
/** Set on the function by `@Query()`, `@Mutation()` and `@Subscription()`: the name of the decorator. */
const RESOLVER_TYPE = 'graphql:resolver_type';

/** Nest's number of `@Param()`. */
export const ROUTE_PARAMETER = 5;
/** Nest's numbers of `@Res()` and `@Next()`. */
const ANSWERING_PARAMETERS: readonly unknown[] = [1, 2];

export type HandlerKind = 'http' | 'rpc' | 'ws' | 'other';

/** One decorated parameter of a handler, as Nest keeps it. */
export interface HandlerParameter {
  readonly index: number;
  /** Nest's number of the source, such as 3 for the body; `undefined` for a custom decorator. */
  readonly type: number | undefined;
  /** The argument of its decorator: `id` of `@Param('id')`. */
  readonly data: unknown;
  readonly pipes: readonly unknown[];
  readonly factory: ((data: unknown, context: unknown) => unknown) | undefined;
  readonly schema: unknown;
  readonly metatype: unknown;
}

/** The decorated parameters of a method of this very class, by index. A subclass may override them. */
export function handlerParameters(cls: AnyClass, method: string | symbol): readonly HandlerParameter[] {
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

/** The transport over which Nest calls this method; `undefined` for a method that only other code calls. */
export function handlerKind(
  cls: AnyClass,
  method: string | symbol,
  fn: AnyFunction,
): HandlerKind | undefined {
  if (Reflect.hasMetadata(HTTP_MARK, fn)) return 'http';
  if (RPC_MARKS.some((mark) => Reflect.hasMetadata(mark, fn))) return 'rpc';
  if (Reflect.hasMetadata(WS_MARK, fn)) return 'ws';
  const isOther = Reflect.getMetadataKeys(fn).some((key) => String(key).startsWith('graphql:'));
  return isOther || handlerParameters(cls, method).length > 0 ? 'other' : undefined;
}

/** True for a resolver of a subscription, whose events GraphQL reads after the resolver has returned. */
export function isSubscription(fn: object): boolean {
  return Reflect.getMetadata(RESOLVER_TYPE, fn) === 'Subscription';
}

export function isSse(fn: object): boolean {
  return Reflect.hasMetadata('__sse__', fn);
}

/**
 * True for a handler whose answer Nest leaves to the handler itself: it injects the response or `next` without
 * `passthrough`, or has the call of gRPC by `@GrpcStreamCall()`.
 */
export function answersItself(cls: AnyClass, method: string | symbol, fn: AnyFunction): boolean {
  const patterns = (Reflect.getMetadata(RPC_PATTERN, fn) ?? []) as readonly unknown[];
  if (patterns.some((it) => (Object(it) as { streaming?: unknown }).streaming === 'pt_stream')) return true;
  if (handlerKind(cls, method, fn) !== 'http' || isSse(fn)) return false;
  const isInjected = handlerParameters(cls, method).some(({ type }) => ANSWERING_PARAMETERS.includes(type));
  return isInjected && Reflect.getMetadata(PASSTHROUGH, cls, method) !== true;
}

/** The enhancers that are bound to a class or a method, outermost first. */
export function boundTo(list: string, target: object): readonly unknown[] {
  return (Reflect.getMetadata(list, target) ?? []) as readonly unknown[];
}

export function putLast(list: string, enhancer: unknown, target: object): void {
  const others = boundTo(list, target).filter((it) => it !== enhancer);
  Reflect.defineMetadata(list, [...others, enhancer], target);
}

export function putInFront(list: string, enhancer: unknown, target: object): void {
  const others = boundTo(list, target).filter((it) => it !== enhancer);
  Reflect.defineMetadata(list, [enhancer, ...others], target);
}

export type AnyClass = abstract new (...args: never[]) => unknown;
export type AnyFunction = (...args: never[]) => unknown;
