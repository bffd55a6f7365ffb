import { EventEmitter } from 'node:events';
import { HttpException, type ExecutionContext } from '@nestjs/common';
import { ApplicationConfig, type HttpAdapterHost, type ModuleRef } from '@nestjs/core';
import { lastValueFrom, defer, type Observable } from 'rxjs';
import { getLockHttpToken } from '../../../libs/distributed-lock/src/distributed-lock.tokens.js';
import type { Lock } from '../../../libs/distributed-lock/src/lock/lock.js';
import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import { Locked } from '../../../libs/distributed-lock/src/locked/locked.decorator.js';
import { ClientLeftError } from '../../../libs/distributed-lock/src/locked/errors/lock-http.js';
import { resolveLockHttp } from '../../../libs/distributed-lock/src/locked/errors/lock-http.js';
import { LockedInterceptor } from '../../../libs/distributed-lock/src/locked/locked.interceptor.js';
import type { LockedOptions } from '../../../libs/distributed-lock/src/locked/declaration/locked.options.js';

interface HandlerOptions {
  readonly keys: readonly string[];
  readonly options: LockedOptions;
  /** The client leaves then. */
  readonly signal?: AbortSignal | undefined;
}

/** One request to a handler with `@Locked`, through the interceptor that Nest would call. The application around it is not there. */
export async function request(
  service: LockService,
  { keys, options, signal }: HandlerOptions,
  work: (lock: Lock) => Promise<void>,
): Promise<void> {
  class Controller {
    async handle(): Promise<void> {
      await work(service.current(keys[0]) as Lock);
    }
  }
  const descriptor = Object.getOwnPropertyDescriptor(Controller.prototype, 'handle') as PropertyDescriptor;
  Locked(() => keys, options)(Controller.prototype, 'handle', descriptor as never);
  Object.defineProperty(Controller.prototype, 'handle', descriptor);

  const response = new Response();
  signal?.addEventListener('abort', () => response.leave());
  const interceptor = new LockedInterceptor(modulesWith(service), new ApplicationConfig(), ADAPTER);
  const controller = new Controller();
  const handled: Observable<unknown> = interceptor.intercept(contextOf(Controller, response), {
    handle: () => defer(() => controller.handle()),
  });
  try {
    await lastValueFrom(handled, { defaultValue: undefined });
  } catch (error) {
    if (error instanceof ClientLeftError && signal?.aborted) return;
    throw error instanceof HttpException && error.cause ? error.cause : error;
  } finally {
    response.end();
  }
}

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

const ADAPTER = { httpAdapter: { setHeader: () => undefined } } as unknown as HttpAdapterHost;

/** The module of the lock gives the service; nothing else is asked for. */
function modulesWith(service: LockService): ModuleRef {
  return {
    get(token: unknown) {
      return token === getLockHttpToken() ? resolveLockHttp() : service;
    },
  } as unknown as ModuleRef;
}

function contextOf(controller: { prototype: object }, response: Response): ExecutionContext {
  const args = [{}, response];
  const { handle } = controller.prototype as { handle: () => unknown };
  return {
    getClass: () => controller,
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
