import { setTimeout as pause } from 'node:timers/promises';
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
import { failureOf } from '../../support/lock-services.js';
import { inRequest, requestNow, STORES } from './support/requests.js';
import { ADAPTERS, Stage, startApp, type StartedApp } from '../integration/stage.js';

let count = 0;

/** A busy machine lets a holder listen before a lease of this length runs out. */
const LEASE_MS = 1000;

/** The event loop stands still, as in a long piece of code. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

describe.each(STORES)('async contexts on %s', (name, makeStore) => {
  let service: LockService;
  let key: string;
  let first: Lock;

  beforeEach(async () => {
    key = `context:${name}:${process.pid}:${++count}`;
    service = new LockService({ store: makeStore(), shutdownGraceMs: 0, watchdogTimeoutMs: 3000 });
    // Its call opens the connections, and starts the watchdog and what else there is one of.
    first = await inRequest('first', () => service.acquire(`${key}:first`));
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

  it('a listener of a lease that runs out runs in its own request, also for several keys', async () => {
    const seen: unknown[] = [];
    const note = () => seen.push(requestNow());
    const listen = async (request: string, keys: string | string[]) => {
      const { signal } = await inRequest(request, () => service.acquire(keys, { leaseMs: LEASE_MS }));
      inRequest(request, () => signal.addEventListener('abort', note));
    };
    await listen('second', key);
    await listen('third', [`${key}:a`, `${key}:b`]);
    await until(() => seen.length === 2);
    expect(new Set(seen)).toEqual(new Set(['second', 'third']));
  });

  it('a listener of a loss that another request finds out does not share the lock of that request', async () => {
    const lock = await inRequest('second', () => service.acquire(key, { leaseMs: LEASE_MS }));
    const told = inRequest(
      'second',
      () =>
        new Promise<unknown>((resolve) => {
          lock.signal.addEventListener('abort', () => {
            const taking = service.withLock(`${key}:first`, { waitMs: 500 }, () => 'shared');
            resolve(failureOf(taking).then((failure) => ({ failure, request: requestNow() })));
          });
        }),
    );
    await inRequest('first', () =>
      first.run(() => {
        block(LEASE_MS + 50);
        return lock.validForMs;
      }),
    );
    expect(await told).toMatchObject({ failure: { code: 'LOCK_WAIT_TIMEOUT' }, request: 'second' });
  });

  it('a listener of events runs in the request that has subscribed it, whichever call they are about', async () => {
    const seen = new Set<unknown>();
    inRequest('watcher', () => service.events$.subscribe(() => seen.add(requestNow())));
    await losing(() => undefined);
    await inRequest('third', () => service.withLock(key, () => undefined));
    const lock = await inRequest('fourth', () => service.acquire(key, { leaseMs: LEASE_MS }));
    await failureOf(inRequest('fifth', () => service.acquire(key, { waitMs: 10 })));
    await until(() => !lock.validForMs);
    expect([...seen]).toEqual(['watcher']);
  });

  it('a call goes on in its own request, whoever hands the lock to it', async () => {
    const seen: unknown[] = [];
    const turns = ['second', 'third', 'fourth'].map((request) =>
      inRequest(request, () =>
        service.withLock(key, async () => {
          seen.push(requestNow());
          await pause(5);
        }),
      ),
    );
    await Promise.all(turns);
    expect(seen).toEqual(['second', 'third', 'fourth']);
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
