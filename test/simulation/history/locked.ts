import { EventEmitter } from 'node:events';
import { HttpException, type ExecutionContext } from '@nestjs/common';
import { ApplicationConfig, type HttpAdapterHost, type ModuleRef } from '@nestjs/core';
import { defer, from, isObservable, mergeMap, Observable, of } from 'rxjs';
import {
  getLockHttpToken,
  getLockServiceToken,
  injectedProperty,
} from '../../../libs/distributed-lock/src/distributed-lock.tokens.js';
import type { Lock } from '../../../libs/distributed-lock/src/lock/lock.js';
import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import { Locked } from '../../../libs/distributed-lock/src/locked/locked.decorator.js';
import { ClientLeftError, resolveLockHttp } from '../../../libs/distributed-lock/src/locked/client-errors.js';
import { LockedInterceptor } from '../../../libs/distributed-lock/src/locked/locked.interceptor.js';
import type { LockedOptions } from '../../../libs/distributed-lock/src/locked/locked.options.js';
import type { LockWaitTimeoutError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { Asking, LockedPlan } from '../plan/plan.js';
import { claimedKeys } from './claims.js';
import { argumentsFor, templatesOf } from './key-templates.js';
import type { SimProcess } from '../kernel/process.js';
import { readStream } from './stream.js';

/** What a method with `@Locked` does, and what its caller is told. */
export interface LockedWork {
  /** Runs the work under the lock, and gives what the method returns. */
  readonly promised: (lock: Lock) => Promise<object>;
  /** Fails before the first `await`. */
  readonly thrown: (lock: Lock) => never;
  readonly items: (lock: Lock) => AsyncGenerator<number>;
  /** The reader of its Observable has left: the method stops, and its lock is given back. */
  readonly onLeft: () => void;
  /** Its generator has failed, and will be asked for that later. */
  readonly onRefused: () => void;
  readonly hasBegun: () => boolean;
  /** A generator that waited for its lock was ended, and that took so long. */
  readonly onLate: (ms: number) => void;
  /** `onBusy` was called in place of the method. */
  readonly onBusy: (busy: LockWaitTimeoutError) => unknown;
}

export type Outcome =
  | { readonly did: 'return'; readonly value: unknown }
  | { readonly did: 'leave' }
  | { readonly did: 'read'; readonly count: number };

interface LockedCall {
  readonly process: SimProcess;
  readonly services: readonly LockService[];
  readonly asking: Asking;
  readonly options: LockedOptions;
  readonly signal?: AbortSignal | undefined;
}

const PLAIN: LockedPlan = { keys: 'function', gives: 'promise' };

/**
 * Calls a method with `@Locked`: a `handler` through the interceptor that Nest would call, a `method` as other code calls it. The
 * application around it is not there.
 */
export async function callLocked(call: LockedCall, work: LockedWork): Promise<Outcome> {
  const { asking, services, options } = call;
  const { locked = PLAIN, keys, how, service } = asking;
  const own = services[service] as LockService;
  const currentLock = (): Lock => own.current(keys[0]) as Lock;
  const body = bodyOf(locked, work, currentLock);
  class Provider {
    declare readonly handle: (...args: readonly unknown[]) => unknown;
  }
  Object.defineProperty(Provider.prototype, 'handle', { value: body, configurable: true, writable: true });
  const descriptor = Object.getOwnPropertyDescriptor(Provider.prototype, 'handle') as PropertyDescriptor;
  const isHandler = how === 'handler';
  const templates =
    locked.keys === 'function'
      ? undefined
      : templatesOf(keys, locked.keys, isHandler ? 'body.given' : '_given');
  if (isHandler && templates) Reflect.defineMetadata('path', '/', descriptor.value as object);
  const all: LockedOptions = {
    ...options,
    ...(service > 0 && { name: nameOf(service) }),
    ...(call.signal && !isHandler && { signal: call.signal }),
    ...(locked.gives === 'observable' && !isHandler && { stream: true }),
    ...(locked.onBusy === 'skip' && !isHandler && { onBusy: 'skip' }),
    ...(locked.onBusy === 'answer' && { onBusy: (busy: LockWaitTimeoutError) => work.onBusy(busy) }),
    ...(locked.isFree && { when: () => false }),
  };
  Locked(templates ? claimedKeys(asking, templates) : () => claimedKeys(asking), all as never)(
    Provider.prototype,
    'handle',
    descriptor as never,
  );
  Object.defineProperty(Provider.prototype, 'handle', descriptor);
  const provider = new Provider();
  Object.assign(provider, {
    [injectedProperty()]: services[0],
    ...(service > 0 && { [injectedProperty(nameOf(service))]: own }),
  });
  const args = argumentsFor(keys);
  if (isHandler) return request(call, provider, args);
  const result = provider.handle(...args);
  if (isObservable(result)) return readObservable(result, call);
  if (locked.gives === 'generator') {
    const items = result as AsyncGenerator<number>;
    return locked.reader === 'drops' ? endSoon(items, call, work) : readItems(items, locked);
  }
  return { did: 'return', value: await result };
}

function nameOf(service: number): string {
  return `service ${service}`;
}

type Body = (...args: readonly unknown[]) => unknown;

function bodyOf({ gives }: LockedPlan, work: LockedWork, lock: () => Lock): Body {
  switch (gives) {
    case 'promise':
      return { handle: async (_given: unknown) => work.promised(lock()) }.handle as Body;
    case 'throws':
      return { handle: (_given: unknown) => work.thrown(lock()) }.handle as Body;
    case 'generator':
      return async function* handle(_given: unknown) {
        return yield* work.items(lock());
      };
    case 'observable':
      return { handle: (_given: unknown) => streamOf(work, lock) }.handle as Body;
  }
}

function streamOf(work: LockedWork, lock: () => Lock): Observable<number> {
  return new Observable<number>((out) => {
    const items = work.items(lock());
    let isOver = false;
    const run = async (): Promise<void> => {
      for await (const item of items) out.next(item);
      isOver = true;
      out.complete();
    };
    run().catch((error: unknown) => {
      isOver = true;
      out.error(error);
    });
    return () => {
      if (isOver) return;
      work.onLeft();
      items.return(undefined).catch(() => undefined);
    };
  });
}

/** One request to a handler with `@Locked`. */
async function request(call: LockedCall, provider: object, args: readonly unknown[]): Promise<Outcome> {
  const { services, asking, signal } = call;
  const { locked = PLAIN } = asking;
  const response = new Response();
  signal?.addEventListener('abort', () => response.leave());
  const interceptor = new LockedInterceptor(modulesWith(services), new ApplicationConfig(), ADAPTER);
  const { handle } = provider as { handle: Body };
  // As Nest does it: a promise or an Observable is waited for.
  const next = defer(async () => Reflect.apply(handle, provider, args)).pipe(
    mergeMap((result) => (isObservable(result) ? result : of(result))),
  );
  const context = contextOf(provider.constructor, response, { body: { given: args[0] } });
  const handled = interceptor.intercept(context, { handle: () => next });
  try {
    if (locked.gives === 'observable') return await readObservable(handled, call);
    const value: unknown = await new Promise((resolve, reject) => {
      let last: unknown;
      handled.subscribe({ next: (it) => (last = it), error: reject, complete: () => resolve(last) });
    });
    if (locked.gives === 'generator' && isIterable(value)) return await readItems(value, locked);
    return { did: 'return', value };
  } catch (error) {
    if (error instanceof ClientLeftError && signal?.aborted) return { did: 'leave' };
    throw error instanceof HttpException && error.cause ? error.cause : error;
  } finally {
    response.end();
  }
}

function isIterable(value: unknown): value is AsyncGenerator<number> {
  return Symbol.asyncIterator in Object(value);
}

async function readItems(items: AsyncGenerator<number>, { reader = 'reads' }: LockedPlan): Promise<Outcome> {
  const count = await readStream(items, reader);
  return reader === 'reads' ? { did: 'read', count } : { did: 'leave' };
}

/** Its first item is asked for, and then it is ended, perhaps while it waits for the lock: then it ends at once. */
async function endSoon(
  items: AsyncGenerator<number>,
  { process }: LockedCall,
  { hasBegun, onLate, onRefused }: LockedWork,
): Promise<Outcome> {
  const first = items.next();
  first.catch(onRefused);
  await new Promise<void>((resolve) => process.setTimeout(DROPPED_AFTER_MS, resolve));
  const isWaiting = !hasBegun();
  const from = process.trueNow;
  await items.return(undefined);
  if (isWaiting) onLate(process.trueNow - from);
  await first;
  return { did: 'leave' };
}

/** One that drops it unsubscribes soon, perhaps while it waits for the lock. */
function readObservable(
  items: Observable<unknown>,
  { process, asking: { locked: { reader = 'reads' } = PLAIN } }: LockedCall,
): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    let count = 0;
    let isOver = false;
    const leave = (): void => {
      if (isOver) return;
      isOver = true;
      subscription.unsubscribe();
      resolve({ did: 'leave' });
    };
    const subscription = from(items).subscribe({
      next: () => {
        count += 1;
        if (reader === 'leaves') process.setImmediate(leave);
      },
      error: (error: unknown) => {
        isOver = true;
        reject(error as Error);
      },
      complete: () => {
        if (!isOver) resolve({ did: 'read', count });
        isOver = true;
      },
    });
    if (reader === 'drops') process.setTimeout(DROPPED_AFTER_MS, leave);
  });
}

const DROPPED_AFTER_MS = 40;

class Response extends EventEmitter {
  closed = false;
  destroyed = false;
  headersSent = false;
  writableFinished = false;

  leave(): void {
    if (this.writableFinished) return;
    this.closed = this.destroyed = true;
    this.emit('close');
  }

  end(): void {
    this.writableFinished = this.headersSent = true;
    this.emit('finish');
  }

  destroy(): void {
    this.leave();
  }
}

const ADAPTER = {
  httpAdapter: { isHeadersSent: () => false, setHeader: () => undefined },
} as unknown as HttpAdapterHost;

/** The modules of the locks give their services; nothing else is asked for. */
function modulesWith(services: readonly LockService[]): ModuleRef {
  const names = services.map((_, i) => (i === 0 ? undefined : nameOf(i)));
  return {
    get(token: unknown) {
      if (names.some((name) => token === getLockHttpToken(name))) return resolveLockHttp();
      return services[names.findIndex((name) => token === getLockServiceToken(name))];
    },
  } as unknown as ModuleRef;
}

function contextOf(cls: unknown, response: Response, given: object): ExecutionContext {
  const { handle } = (cls as { readonly prototype: { readonly handle: () => unknown } }).prototype;
  const args = [given, response];
  return {
    getClass: () => cls,
    getHandler: () => handle,
    getType: () => 'http',
    getArgs: () => args,
    getArgByIndex: (i: number) => args[i],
    switchToHttp: () => ({
      getRequest: () => args[0],
      getResponse: () => response,
      getNext: () => undefined,
    }),
  } as unknown as ExecutionContext;
}
