import { describe, expect, it } from '@jest/globals';
import {
  Catch,
  Controller,
  Get,
  HttpException,
  Inject,
  Injectable,
  UseInterceptors,
  type ArgumentsHost,
  type CallHandler,
  type ExceptionFilter,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { LockService, Locked } from 'nestjs-distributed-lock';
import { EMPTY, of, type Observable } from 'rxjs';
import { Stage } from '../../integration/stage.js';
import { until } from '#until';
import { once } from '../support.js';
import { fresh } from './fresh.js';

describe('handlers', () => {
  it('without any value answer as they do without a lock, and give the lock back', async () => {
    @Controller()
    class Goods {
      @Get('locked')
      @Locked('empty')
      locked(): Observable<never> {
        return EMPTY;
      }

      @Get('plain')
      plain(): Observable<never> {
        return EMPTY;
      }
    }
    const { fetch, isFree } = await fresh({ controllers: [Goods] });
    expect((await fetch('/locked')).status).toBe((await fetch('/plain')).status);
    await until(() => isFree('empty'));
  });

  it('that return no promise are locked', async () => {
    @Controller()
    class Goods {
      @Inject(LockService) private readonly locks!: LockService;

      @Get()
      @(Locked('plain') as MethodDecorator)
      read(): string {
        return `plain ${this.locks.current()?.key}`;
      }
    }
    const { fetch, isFree } = await fresh({ controllers: [Goods] });
    expect(await (await fetch('/')).text()).toBe('plain plain');
    await until(() => isFree('plain'));
  });

  it('that a cache inside the lock answers for do not run, and the lock is given back', async () => {
    @Injectable()
    class Cached implements NestInterceptor {
      intercept(_context: ExecutionContext, _next: CallHandler): Observable<unknown> {
        return of('from the cache');
      }
    }
    @Controller()
    class Goods {
      constructor(@Inject(Stage) private readonly stage: Stage) {}

      @Get()
      @Locked('cached')
      @UseInterceptors(Cached)
      async read(): Promise<void> {
        this.stage.note('ran');
      }
    }
    const { fetch, stage, events } = await fresh({ controllers: [Goods] });
    expect(await (await fetch('/')).text()).toBe('from the cache');
    await until(() => events.length > 1);
    expect([events, stage.log]).toEqual([once('cached'), []]);
  });

  it('that are busy look like an HttpException to a filter of the application for everything', async () => {
    const seen: unknown[] = [];
    @Catch()
    class Everything implements ExceptionFilter {
      constructor(private readonly host: HttpAdapterHost) {}

      catch(error: unknown, host: ArgumentsHost): void {
        seen.push(error);
        const status = error instanceof HttpException ? error.getStatus() : 500;
        this.host.httpAdapter.reply(host.switchToHttp().getResponse(), { own: status }, status);
      }
    }
    @Controller()
    class Goods {
      @Get()
      @Locked('busy', { waitMs: 0 })
      async read(): Promise<void> {}
    }
    const { fetch, locks } = await fresh({
      controllers: [Goods],
      prepare: (app) => app.useGlobalFilters(new Everything(app.get(HttpAdapterHost))),
    });
    const mine = await locks.acquire('busy');
    const answer = await fetch('/');
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([423, '1']);
    expect(await answer.json()).toEqual({ own: 423 });
    expect(seen).toMatchObject([{ cause: { code: 'LOCK_WAIT_TIMEOUT' } }]);
    await mine.release();
  });
});
