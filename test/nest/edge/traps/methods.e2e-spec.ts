import { describe, expect, it, jest } from '@jest/globals';
import {
  type ArgumentsHost,
  type CallHandler,
  Catch,
  Controller,
  type ExceptionFilter,
  type ExecutionContext,
  Get,
  HttpException,
  Inject,
  Injectable,
  Module,
  type NestInterceptor,
  NotFoundException,
  type OnModuleDestroy,
  type OnModuleInit,
  UseInterceptors,
} from '@nestjs/common';
import { CurrentLock, type Lock, Locked, LockService, LockSignal } from 'nestjs-distributed-lock';
import { HttpAdapterHost, LazyModuleLoader, ModuleRef } from '@nestjs/core';
import { EMPTY, type Observable, of } from 'rxjs';
import { until } from '#until';
import { fresh } from './fresh.js';
import { Stage } from '../../integration/stage.js';
import { once } from '../support.js';

describe('what a method gives, and what its callers get', () => {
  it('an error of the method is not replaced by the loss of its lock', async () => {
    @Injectable()
    class Shop {
      @Locked('lost', { leaseMs: 50 })
      async sell(@LockSignal() signal?: AbortSignal): Promise<never> {
        await until(() => signal?.aborted === true);
        throw new NotFoundException('my own');
      }
    }
    const { app } = await fresh({ providers: [Shop] });
    await expect(app.get(Shop).sell()).rejects.toThrow('my own');
  });

  it('an error of a nested lock says once what happened', async () => {
    @Injectable()
    class Shop {
      @Locked('outer')
      async outer(): Promise<void> {
        return this.busy();
      }

      @Locked('busy', { waitMs: 0 })
      async busy(): Promise<void> {}
    }
    const { app, locks } = await fresh({ providers: [Shop] });
    const mine = await locks.acquire('busy');
    const error = await app
      .get(Shop)
      .outer()
      .catch((thrown: Error) => thrown);
    expect((error as Error).message.match(/is not free/g)).toHaveLength(1);
    await mine.release();
  });
});

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

const METHOD = Symbol('method');

@Injectable()
class Shop {
  @Locked('held:<id>')
  async held(id: string, @CurrentLock() lock?: Lock): Promise<string | undefined> {
    return id && lock?.key;
  }

  @Locked('symbol')
  async [METHOD](@CurrentLock() lock?: Lock): Promise<string | undefined> {
    return lock?.key;
  }
}

describe('objects and their methods', () => {
  it('are locked while the application boots, and while it ends', async () => {
    @Injectable()
    class Living extends Shop implements OnModuleInit, OnModuleDestroy {
      readonly keys: unknown[] = [];

      async onModuleInit(): Promise<void> {
        this.keys.push(await this.held('init'));
      }

      async onModuleDestroy(): Promise<void> {
        this.keys.push(await this.held('end'));
      }
    }
    const { app } = await fresh({ providers: [Living] });
    const living = app.get(Living);
    await app.close();
    expect(living.keys).toEqual(['held:init', 'held:end']);
  });

  it('are locked under a symbol for a name', async () => {
    const { app } = await fresh({ providers: [Shop] });
    expect(await app.get(Shop)[METHOD]()).toBe('symbol');
  });

  it('are locked when a method is taken off its object', async () => {
    const { app } = await fresh({ providers: [Shop] });
    const held = Reflect.get(app.get(Shop), 'held') as (id: string) => Promise<string | undefined>;
    expect(await held('2')).toBe('held:2');
    expect(await held.call(app.get(Shop), '3')).toBe('held:3');
  });

  it('keep their lock under a spy of a test', async () => {
    const { app } = await fresh({ providers: [Shop] });
    const spy = jest.spyOn(app.get(Shop), 'held');
    expect(await app.get(Shop).held('spied')).toBe('held:spied');
    expect(spy).toHaveBeenCalledWith('spied');
  });

  it('are locked when Nest builds them later: by ModuleRef.create, and in lazy modules', async () => {
    @Module({ providers: [Shop] })
    class LateModule {}
    const { app } = await fresh({});
    const created = await app.get(ModuleRef).create(Shop);
    expect(await created.held('1')).toBe('held:1');
    const module = await app.get(LazyModuleLoader).load(() => LateModule);
    expect(await module.get(Shop).held('2')).toBe('held:2');
  });

  it('are refused when the class is loaded where the decorator stands on no method', () => {
    const decorate = Locked('a') as MethodDecorator;
    class Target {
      get value(): number {
        return 1;
      }
    }
    const descriptor = Object.getOwnPropertyDescriptor(Target.prototype, 'value');
    expect(() => decorate(Target.prototype, 'value', descriptor as PropertyDescriptor)).toThrow(
      '@Locked on Target.value: this is not a method.',
    );
  });
});
