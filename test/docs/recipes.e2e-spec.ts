import {
  Catch,
  Controller,
  Get,
  HttpException,
  Injectable,
  Param,
  type ArgumentsHost,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { APP_INTERCEPTOR, BaseExceptionFilter, HttpAdapterHost } from '@nestjs/core';
import { describe, expect, it } from '@jest/globals';
import { LockService, Locked, LockedInterceptor, toHttpException } from 'nestjs-distributed-lock';
import { tap, type Observable } from 'rxjs';
import { startApp } from '../nest/integration/stage.js';
import { until } from '#until';

const log: string[] = [];

class Transaction implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    log.push('begin');
    return next.handle().pipe(tap(() => log.push('commit')));
  }
}

/** A decorator as those of transaction libraries. */
function Transactional(): MethodDecorator {
  return (_target, _name, descriptor: PropertyDescriptor) => {
    const original = descriptor.value as (...args: unknown[]) => Promise<unknown>;
    descriptor.value = async function transactional(this: unknown, ...args: unknown[]) {
      log.push('begin');
      const result = await Reflect.apply(original, this, args);
      log.push('commit');
      return result;
    };
  };
}

@Catch()
class EverythingFilter extends BaseExceptionFilter {
  override catch(error: unknown, host: ArgumentsHost): void {
    const translated = toHttpException(error);
    log.push(translated instanceof HttpException ? 'known' : 'unknown');
    // oxlint-disable-next-line promise/valid-params -- a filter, not a promise
    super.catch(translated, host);
  }
}

@Injectable()
class Accounts {
  @Locked('account:<0>')
  @Transactional()
  async deposit(id: number): Promise<string> {
    return `deposited to ${id}`;
  }
}

@Controller()
class AccountsController {
  constructor(
    private readonly locks: LockService,
    private readonly accounts: Accounts,
  ) {}

  @Get('locked/:id')
  @Locked('account:<id>')
  async locked(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('by-hand/:id')
  byHand(@Param('id') id: string): Promise<string> {
    return this.locks.withLock(`account:${id}`, { waitMs: 0 }, () => id);
  }

  @Get('service/:id')
  service(@Param('id') id: string): Promise<string> {
    return this.accounts.deposit(Number(id));
  }
}

const metadata = { controllers: [AccountsController], providers: [Accounts] };

async function started(
  more: Parameters<typeof startApp>[1] = {},
  prepare?: Parameters<typeof startApp>[2],
): Promise<Awaited<ReturnType<typeof startApp>>> {
  log.length = 0;
  const providers = [...metadata.providers, ...(more.providers ?? [])];
  const app = await startApp('express', { ...metadata, providers }, prepare);
  app.locks.events$.subscribe(({ type }) => type !== 'asked' && log.push(type));
  return app;
}

describe('the recipes', () => {
  it('a global transaction begins and commits under the lock once LockedInterceptor is registered before it', async () => {
    const providers = [
      { provide: APP_INTERCEPTOR, useClass: LockedInterceptor },
      { provide: APP_INTERCEPTOR, useClass: Transaction },
    ];
    const { app, fetch } = await started({ providers });
    expect(await (await fetch('/locked/1')).text()).toBe('1');
    await until(() => log.includes('released'));
    expect(log).toEqual(['acquired', 'begin', 'commit', 'released']);
    await app.close();
  });

  it('one bound by useGlobalInterceptors is inside of a registered LockedInterceptor', async () => {
    const providers = [{ provide: APP_INTERCEPTOR, useClass: LockedInterceptor }];
    const { app, fetch } = await started({ providers }, (it) => it.useGlobalInterceptors(new Transaction()));
    await fetch('/locked/1');
    await until(() => log.includes('released'));
    expect(log).toEqual(['acquired', 'begin', 'commit', 'released']);
    await app.close();
  });

  it('a global transaction is outside of the lock without that', async () => {
    const { app, fetch } = await started({}, (it) => it.useGlobalInterceptors(new Transaction()));
    await fetch('/locked/1');
    await until(() => log.includes('commit'));
    expect(log).toEqual(['begin', 'acquired', 'released', 'commit']);
    await app.close();
  });

  it('@Locked above a decorator that wraps the method is around it', async () => {
    const { app, fetch } = await started();
    expect(await (await fetch('/service/7')).text()).toBe('deposited to 7');
    expect(log).toEqual(['acquired', 'begin', 'commit', 'released']);
    await app.close();
  });

  it('a filter that catches everything answers lock errors by their meaning once it translates them', async () => {
    const { app, locks, fetch } = await started({}, (it) =>
      it.useGlobalFilters(new EverythingFilter(it.get(HttpAdapterHost).httpAdapter)),
    );
    await locks.withLock('account:1', async () => {
      expect((await fetch('/by-hand/1')).status).toBe(423);
      expect(log).toContain('known');
    });
    await app.close();
  });
});
