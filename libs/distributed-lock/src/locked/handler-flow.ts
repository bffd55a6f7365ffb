// The async flow of a handler that Nest calls. Nest may call it in the async context of another handler, as when a middleware
// has put the request into a shared queue, or when a server or a worker was opened under a lock.
import { executionAsyncResource } from 'node:async_hooks';
import type { CanActivate, ExecutionContext } from '@nestjs/common';
import {
  currentFlow,
  enterNewFlow,
  locksOfFlow,
  originOfFlow,
  runAsNewFlow,
  runWithLocksSince,
  type Flow,
  type FlowOrigin,
} from '../lock/core/async-context.js';
import type { Lock } from '../lock/lock.js';
import { siteOf, type LockedSite } from './locked.options.js';

const ORIGIN = Symbol.for('nestjs-distributed-lock/origin');

/** A request of Node, of HTTP/1 or of HTTP/2. */
interface MarkedRequest {
  [ORIGIN]?: FlowOrigin;
}

interface RequestSource {
  prependListener?(event: 'request', listener: (request: MarkedRequest) => void): unknown;
  prependListener?(event: 'upgrade', listener: () => void): unknown;
}

/** Begins a flow for each request of a server, ahead of everything that the application does with it. */
export function beginFlows(server: RequestSource | undefined): void {
  server?.prependListener?.('request', (request) => {
    request[ORIGIN] = enterNewFlow();
  });
  server?.prependListener?.('upgrade', () => {
    enterNewFlow();
  });
}

/**
 * For each message, by its arguments: the flow in which it began, before its interceptors. Locks that this flow had then are not
 * the message's.
 */
const entries = new WeakMap<object, Flow>();

/** The arguments of messages that are handled with the global enhancers of the application. */
const withAppConfig = new WeakSet<object>();

/**
 * The first global guard of the application. It records the flow in which a message begins, because no event of a server announces
 * one. It also marks the messages that pass the global enhancers: a microservice that is connected without `inheritAppConfig` has
 * none of them, this guard included. One handler may serve messages of both kinds.
 */
export class MessageGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    if (context.getType() === 'rpc') withAppConfig.add(context.getArgs());
    if (context.getType() !== 'http') entries.set(context.getArgs(), currentFlow());
    return true;
  }
}

/** False for a message that no global pipe of the application is applied to. */
export function hasAppConfig(context: ExecutionContext): boolean {
  return context.getType() !== 'rpc' || withAppConfig.has(context.getArgs());
}

/** Set on the function by `@Cron()`, `@Interval()` and `@Timeout()` of `@nestjs/schedule`. */
const SCHEDULES = ['SCHEDULE_CRON_OPTIONS', 'SCHEDULE_INTERVAL_OPTIONS', 'SCHEDULE_TIMEOUT_OPTIONS'];
/** Set on the class by `@Processor()` of `@nestjs/bullmq`, whose workers call its method `process`. */
const PROCESSOR = 'bullmq:processor_metadata';

/**
 * Runs a call of a locked method that no interceptor has seen: without the locks of the present flow if a scheduler or a worker
 * calls the method, otherwise with them.
 */
export function runAsCalled<T>(call: PlainCall, work: () => T): T {
  return currentFlow() && isCalledByNest(call) ? runAsNewFlow(undefined, work) : work();
}

interface PlainCall {
  readonly self: unknown;
  readonly site: LockedSite;
  /** The name of the method, which is the site of its holds. */
  readonly where: string | undefined;
}

function isCalledByNest({ self, site, where }: PlainCall): boolean {
  const { [site.method]: method, constructor } = Object(self) as Record<string | symbol, object>;
  if (siteOf(method) !== site) return false;
  // A scheduler calls the method directly from a timer. A call by the application comes from some other async resource.
  if (SCHEDULES.some((mark) => Reflect.hasMetadata(mark, method as object)))
    return executionAsyncResource().constructor.name === 'Timeout';
  if (site.method !== 'process' || !Reflect.hasMetadata(PROCESSOR, constructor as object)) return false;
  // If the flow has this method's own lock, the job calls the method once more by itself.
  return !locksOfFlow().some(({ holds }) => holds.some((hold) => hold.site === where));
}

/**
 * True if the present flow is that of the handler: its locks are held by middleware, guards and interceptors around this
 * handler, or by the resolver around a field.
 */
export function isInOwnFlow(context: ExecutionContext): boolean {
  if (!currentFlow()) return true;
  const type = context.getType<string>();
  if (type === 'graphql' && !isRootField(context)) return true;
  const request = requestOf(context, type);
  return request !== undefined && request[ORIGIN] === originOfFlow();
}

/** Runs `work` without those locks of the present flow that do not belong to this handler. */
export function runInOwnFlow<T>(context: ExecutionContext, work: () => T): T {
  if (entries.has(context.getArgs())) return runWithLocksSince(entries.get(context.getArgs()), work);
  return runAsNewFlow(requestOf(context, context.getType())?.[ORIGIN], work);
}

/** Those locks of the present flow that do not belong to this handler. */
export function locksLeftOut(context: ExecutionContext): readonly Lock[] {
  const ownLocks = runInOwnFlow(context, locksOfFlow);
  return locksOfFlow().filter((lock) => !ownLocks.includes(lock));
}

function isRootField(context: ExecutionContext): boolean {
  const info = context.getArgByIndex<{ readonly path?: { readonly prev?: unknown } } | undefined>(3);
  return info?.path?.prev === undefined;
}

/** Node's own request, which the request of the framework contains; for GraphQL the one that its context has. */
function requestOf(context: ExecutionContext, type: string): MarkedRequest | undefined {
  const isGraphQl = type === 'graphql';
  if (type !== 'http' && !isGraphQl) return undefined;
  const source = context.getArgByIndex<RequestOrContext | undefined>(isGraphQl ? 2 : 0);
  const request = isGraphQl ? (source?.req ?? source?.request ?? source?.reply?.request) : source;
  return request?.raw ?? request;
}

interface RequestOrContext extends MarkedRequest {
  readonly raw?: MarkedRequest;
  readonly req?: RequestOrContext;
  readonly request?: RequestOrContext;
  readonly reply?: { readonly request?: RequestOrContext };
}
