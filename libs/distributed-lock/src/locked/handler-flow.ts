// Which of the locks in the async context belong to a handler. Nest may call a handler in the async context of another one: for
// instance after a middleware has put the request into a shared queue, or if a server or a worker was opened while a lock was
// held. Locks of that other handler must not count as the handler's own. The interceptor asks for each request, `callLocked` for
// each plain call.
import { executionAsyncResource } from 'node:async_hooks';
import type { CanActivate, ExecutionContext } from '@nestjs/common';
import {
  currentFlow,
  enterNewFlow,
  runAsNewFlow,
  runWithLocksSince,
  type Flow,
} from '../lock/core/async-context.js';
import type { Lock } from '../lock/lock.js';
import { noteAppConfig } from '../nest/app-config.js';
import { type LockPlan, siteOf } from './lock-plan.js';

const ORIGIN = Symbol.for('nestjs-distributed-lock/origin');

/** Node's request, of HTTP/1 or HTTP/2. `beginFlows` stores the origin of its async flow on it. */
interface MarkedRequest {
  [ORIGIN]?: object;
}

interface RequestSource {
  prependListener?(event: 'request', listener: (request: MarkedRequest) => void): unknown;
  prependListener?(event: 'upgrade', listener: () => void): unknown;
}

/** Starts a new async flow for each request of a server, before any code of the application runs for it. */
export function beginFlows(server: RequestSource | undefined): void {
  server?.prependListener?.('request', (request) => {
    request[ORIGIN] = enterNewFlow();
  });
  server?.prependListener?.('upgrade', () => {
    enterNewFlow();
  });
}

/**
 * Maps the arguments of a message to the async flow in which `MessageGuard` saw the message, before its interceptors. Locks that
 * this flow already held belong to somebody else.
 */
const entries = new WeakMap<object, Flow | undefined>();

/**
 * Runs as the first global guard of the application. Records the async flow in which a message begins, because no event of a
 * server announces a message.
 */
export class MessageGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    if (context.getType() === 'http') return true;
    entries.set(context.getArgs(), currentFlow());
    noteAppConfig(context);
    return true;
  }
}

/** Metadata that `@Cron()`, `@Interval()` and `@Timeout()` of `@nestjs/schedule` set on a method. */
const SCHEDULES = ['SCHEDULE_CRON_OPTIONS', 'SCHEDULE_INTERVAL_OPTIONS', 'SCHEDULE_TIMEOUT_OPTIONS'];
/** Metadata that `@Processor()` of `@nestjs/bullmq` sets on a class. Its workers call the method `process` of such a class. */
const PROCESSOR = 'bullmq:processor_metadata';

/**
 * Runs a plain call of a locked method. If a scheduler or a worker makes the call, the locks in its async context belong to
 * somebody else, so the call runs without them. Any other call runs with them.
 */
export function runAsCalled<T>(self: unknown, plan: LockPlan, work: () => T): T {
  return currentFlow() && isCalledByNest(self, plan) ? runAsNewFlow(undefined, work) : work();
}

function isCalledByNest(self: unknown, { site, call }: LockPlan): boolean {
  const { [site.method]: method, constructor } = Object(self) as Record<string | symbol, object>;
  if (siteOf(method) !== site) return false;
  // A scheduler calls the method directly from a timer, so the async resource is a Timeout. A call by the application comes from
  // another resource.
  if (SCHEDULES.some((mark) => Reflect.hasMetadata(mark, method as object)))
    return executionAsyncResource().constructor.name === 'Timeout';
  if (site.method !== 'process' || !Reflect.hasMetadata(PROCESSOR, constructor as object)) return false;
  // If the flow holds this method's own lock, the worker's job is running already and calls its `process` again. That call keeps
  // the lock.
  return !(currentFlow()?.locks ?? []).some(({ holds }) => holds.some((hold) => hold.site === call.site));
}

/**
 * Runs `work` of a handler in a flow that has only the handler's own locks. If Nest calls the handler in the flow of another
 * caller, the locks of that caller are left out, and `onForeign` gets those.
 */
export function runInOwnFlow<T>(
  context: ExecutionContext,
  onForeign: (locks: readonly Lock[]) => void,
  work: () => T,
): T {
  if (isInOwnFlow(context)) return work();
  const run = <R>(inside: () => R): R =>
    entries.has(context.getArgs())
      ? runWithLocksSince(entries.get(context.getArgs()), inside)
      : runAsNewFlow(requestOf(context, context.getType())?.[ORIGIN], inside);
  const locks = (): readonly Lock[] => currentFlow()?.locks ?? [];
  const ownLocks = run(locks);
  const foreignLocks = locks().filter((lock) => !ownLocks.includes(lock));
  if (foreignLocks.length > 0) onForeign(foreignLocks);
  return run(work);
}

/**
 * True if the present async flow belongs to this handler. Its locks were then acquired by middleware, guards or interceptors
 * around the handler, or for a GraphQL field by the resolver of its parent.
 */
export function isInOwnFlow(context: ExecutionContext): boolean {
  const flow = currentFlow();
  if (!flow) return true;
  const type = context.getType<string>();
  if (type === 'graphql' && !isRootField(context)) return true;
  const request = requestOf(context, type);
  return request !== undefined && request[ORIGIN] === flow.origin;
}

function isRootField(context: ExecutionContext): boolean {
  const info = context.getArgByIndex<{ readonly path?: { readonly prev?: unknown } } | undefined>(3);
  return info?.path?.prev === undefined;
}

/** Node's own request, which Express and Fastify wrap. GraphQL has it in its context. */
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
