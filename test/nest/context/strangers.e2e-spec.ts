import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type Lock, Locked, lockKey, LockService, LockSignal } from 'nestjs-distributed-lock';
import {
  type CallHandler,
  Controller,
  type ExecutionContext,
  Get,
  type INestApplication,
  Injectable,
  type NestInterceptor,
  Param,
  UseInterceptors,
} from '@nestjs/common';
import { catchError, concat, finalize, Observable, of, throwError } from 'rxjs';
import { until } from '#until';
import { inRequest, requestNow, STORES } from './support/requests.js';
import { ADAPTERS, Stage, startApp, type StartedApp } from '../integration/stage.js';

let count = 0;

describe.each(STORES)('async contexts on %s', (name, makeStore) => {
  let service: LockService;
  let key: string;

  beforeEach(async () => {
    key = `context:${name}:${process.pid}:${++count}`;
    service = new LockService({ store: makeStore(), shutdownGraceMs: 0, watchdogTimeoutMs: 3000 });
    // Its call opens the connections, and starts the watchdog and what else there is one of.
    await inRequest('first', () => service.acquire(`${key}:first`));
  });
  afterEach(() => service.close());

  /** Holds the key for a request until it is lost. @returns what `listen` has made */
  const losing = async <T>(listen: (lock: Lock) => T): Promise<T> => {
    const lock = await inRequest('second', () => service.acquire(key));
    const made = inRequest('second', () => listen(lock));
    await inRequest('operator', () => service.forceRelease(key));
    await until(() => !lock.validForMs);
    return made;
  };

  it('every kind of listener of a loss runs in the request that has added it', async () => {
    const seen: unknown[] = [];
    const note = () => seen.push(requestNow());
    await losing(({ signal }) => {
      signal.addEventListener('abort', note);
      signal.addEventListener('abort', { handleEvent: note });
      signal.onabort = note;
      AbortSignal.any([signal]).addEventListener('abort', note);
    });
    await until(() => seen.length === 4);
    expect(seen).toEqual(['second', 'second', 'second', 'second']);
  });

  it('of several requests that listen to one lock each is told in its own', async () => {
    const seen: unknown[] = [];
    const removed = () => seen.push('removed');
    await losing(({ signal }) => {
      for (const request of ['one', 'two', 'three'])
        inRequest(request, () => signal.addEventListener('abort', () => seen.push(requestNow())));
      signal.addEventListener('abort', removed);
      signal.removeEventListener('abort', removed);
    });
    await until(() => seen.length === 3);
    expect(seen).toEqual(['one', 'two', 'three']);
  });
});

/** Stands outside of the lock when it is global. */
class Audit implements NestInterceptor {
  static readonly seen: (string | undefined)[] = [];

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(
      catchError((error: unknown) => {
        Audit.seen.push(`caught in ${requestNow()}`);
        return throwError(() => error);
      }),
      finalize(() => Audit.seen.push(`over in ${requestNow()}`)),
    );
  }
}

@Injectable()
class Inner extends Audit {}

const note = (what: string): void => void Audit.seen.push(`${what} in ${requestNow()}`);

@Controller()
@UseInterceptors(Inner)
class Goods {
  constructor(private readonly stage: Stage) {}

  @Locked((id: string) => (note('key'), lockKey`goods:${id}`), {
    when: () => (note('when'), true),
    onBusy: () => (note('busy'), 'busy'),
    waitMs: 0,
  })
  @Get('hold/:id')
  async hold(@Param('id') id: string, @LockSignal() signal?: AbortSignal) {
    signal?.addEventListener('abort', () => note('told'));
    await this.stage.reach(id);
    return 'done';
  }

  @Locked('stream:<id>')
  @Get('stream/:id')
  stream(@Param('id') id: string) {
    return concat(of('first'), new Observable(() => this.stage.note(`${id} streams`)));
  }
}

describe.each(ADAPTERS)('async contexts of handlers on %s', (adapter) => {
  let started: StartedApp;

  /** Each request has its name from its header. */
  const prepare = (app: INestApplication): void => {
    app.useGlobalInterceptors(new Audit());
    app.use((req: { headers: Record<string, string> }, _res: unknown, next: () => void) =>
      inRequest(req.headers['x-name'] as string, next),
    );
  };
  const get = (path: string, name: string) => started.fetch(path, { headers: { 'x-name': name } });
  const start = async () => {
    Audit.seen.splice(0);
    started = await startApp(adapter, { controllers: [Goods] }, prepare);
    // Whatever there is one of is made by its call.
    const first = get('/hold/1', 'first');
    await until(() => started.stage.isAt('1'));
    return { ...started, first };
  };
  afterEach(() => started.app.close());

  it('an interceptor outside of the lock is told of the loss in its own request', async () => {
    const { stage, locks, first } = await start();
    const second = get('/hold/2', 'second');
    await until(() => stage.isAt('2'));
    Audit.seen.splice(0);
    await inRequest('operator', () => locks.forceRelease('goods:2'));
    expect((await second).status).toBe(503);
    expect(new Set(Audit.seen)).toEqual(new Set(['told in second', 'caught in second', 'over in second']));
    stage.go('1');
    stage.go('2');
    expect((await first).status).toBe(200);
  });

  it('an interceptor around a stream is told of the loss in its own request', async () => {
    const { stage, locks, first } = await start();
    const second = get('/stream/3', 'second');
    await until(() => stage.log.includes('3 streams'));
    Audit.seen.splice(0);
    await inRequest('operator', () => locks.forceRelease('stream:3'));
    await second.catch(() => undefined);
    await until(() => Audit.seen.includes('caught in second'));
    expect(new Set(Audit.seen)).toEqual(new Set(['caught in second', 'over in second']));
    stage.go('1');
    await first;
  });

  it('when, the key function and onBusy run in the request of the call', async () => {
    const { stage, first } = await start();
    Audit.seen.splice(0);
    expect(await (await get('/hold/1', 'second')).text()).toBe('busy');
    expect(Audit.seen).toEqual(['when in second', 'key in second', 'busy in second', 'over in second']);
    stage.go('1');
    await first;
  });
});
