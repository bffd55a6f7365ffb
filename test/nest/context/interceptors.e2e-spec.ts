import { Controller, Get, Injectable, Param, UseInterceptors } from '@nestjs/common';
import type { CallHandler, ExecutionContext, INestApplication, NestInterceptor } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import { LockSignal, Locked, lockKey } from 'nestjs-distributed-lock';
import { Observable, catchError, concat, finalize, of, throwError } from 'rxjs';
import { ADAPTERS, Stage, startApp, type StartedApp } from '../integration/stage.js';
import { until } from '#until';
import { inRequest, requestNow } from './support/requests.js';

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
