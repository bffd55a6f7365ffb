import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import {
  ConflictException,
  Controller,
  Get,
  Headers,
  Inject,
  Injectable,
  Param,
  ParseIntPipe,
  Post,
  Query,
  Scope,
  Sse,
  UseGuards,
  UseInterceptors,
  UsePipes,
  createParamDecorator,
  type CallHandler,
  type CanActivate,
  type ExecutionContext,
  type MessageEvent,
  type NestInterceptor,
  type PipeTransform,
} from '@nestjs/common';
import { APP_INTERCEPTOR, REQUEST } from '@nestjs/core';
import {
  CurrentLock,
  LockDefaults,
  LockService,
  LockSignal,
  Locked,
  LockedInterceptor,
  lockKey,
  type Lock,
} from 'nestjs-distributed-lock';
import { Observable, catchError, defer, lastValueFrom, mergeMap, retry, throwError, timeout } from 'rxjs';
import { until } from '#until';
import { ADAPTERS, Stage, startApp, type StartedApp } from './stage.js';
import { outcomesOf } from '../../support/events.js';

/** Answers 408 after 60 ms and leaves the handler running, as every timeout interceptor does. */
@Injectable()
class TimeoutInterceptor implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(
      timeout(60),
      catchError(() => throwError(() => new ConflictException('too late'))),
    );
  }
}

/** Commits after the handler, as a transaction does. */
@Injectable()
class Transaction implements NestInterceptor {
  constructor(
    @Inject(Stage) private readonly stage: Stage,
    @Inject(LockService) private readonly locks: LockService,
  ) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    this.note('begin');
    return next.handle().pipe(
      mergeMap(async (value: unknown) => {
        await new Promise((resolve) => setTimeout(resolve, 20));
        this.note('commit');
        return value;
      }),
    );
  }

  private note(what: string): void {
    this.stage.note(`${what} ${this.locks.current() ? 'locked' : 'unlocked'}`);
  }
}

@Injectable()
class SlowPipe implements PipeTransform<string, Promise<string>> {
  constructor(@Inject(Stage) private readonly stage: Stage) {}

  async transform(value: string): Promise<string> {
    await new Promise((resolve) => setTimeout(resolve, 150));
    this.stage.note('pipe done');
    return value;
  }
}

const Tenant = createParamDecorator((_data: unknown, context: ExecutionContext) => {
  const request = context.switchToHttp().getRequest<{ headers: Record<string, string> }>();
  return request.headers['x-tenant'];
});

let keysMade = 0;

@Controller()
class GoodsController {
  constructor(
    @Inject(Stage) private readonly stage: Stage,
    @Inject(LockService) private readonly locks: LockService,
  ) {}

  @Post('goods/:id')
  @Locked('goods:<id>', { waitMs: 100 })
  async purchase(@Param('id', ParseIntPipe) id: number): Promise<{ id: number }> {
    await this.stage.reach('handler');
    return { id };
  }

  @Get('held/:id')
  @Locked('goods:<id>')
  async held(
    @LockSignal() signal: AbortSignal,
    @Param('id') id: string,
    @CurrentLock() lock: Lock,
  ): Promise<unknown> {
    lock.assertHeld();
    return {
      id,
      key: lock.key,
      token: lock.fencingToken,
      aborted: signal.aborted,
      current: this.locks.current()?.key,
    };
  }

  @Get('fails/:id')
  @Locked('goods:<id>')
  async fails(@Param('id') id: string): Promise<void> {
    throw new ConflictException(`no more ${id}`);
  }

  @Get('keys')
  @Locked(['u:<user>', 'q:<query.page|int>', 'h:<headers.X-Tenant|lower>', 't:<2>'])
  async keys(
    @Query('user') _user: string,
    @CurrentLock() lock: Lock,
    @Tenant() _tenant: string,
    @Headers('accept') _accept: string,
  ): Promise<readonly string[]> {
    return lock.keys;
  }

  @Get('function/:id')
  @Locked((id: number, tenant: string) => {
    keysMade += 1;
    return lockKey`f:${id}:${tenant}`;
  })
  async byFunction(
    @Param('id', ParseIntPipe) _id: number,
    @Tenant() _tenant: string,
    @CurrentLock() lock: Lock,
  ): Promise<string> {
    return lock.key;
  }

  @UseInterceptors(Transaction)
  @Get('transaction/above')
  @Locked('transaction')
  async transactionAbove(): Promise<void> {
    this.stage.note('handler');
  }

  @Get('transaction/below')
  @Locked('transaction')
  @UseInterceptors(Transaction)
  async transactionBelow(): Promise<void> {
    this.stage.note('handler');
  }

  @Get('timeout/inside')
  @Locked('timeout')
  @UseInterceptors(TimeoutInterceptor)
  async timeoutInside(): Promise<void> {
    await this.stage.reach('handler');
  }

  @Get('timeout/pipe/:id')
  @Locked('timeout')
  @UseInterceptors(TimeoutInterceptor)
  async timeoutInPipe(@Param('id', SlowPipe) _id: string): Promise<void> {
    this.stage.note('ran too late');
  }

  @Get('nested/:id')
  @Locked('nested:<id>')
  async nested(
    @Param('id') id: string,
    @CurrentLock() lock?: Lock,
  ): Promise<readonly (string | undefined)[]> {
    if (id !== 'outer') return [lock?.key];
    return [lock?.key, ...(await this.nested('inner'))];
  }

  @Get('values')
  @Locked('values')
  observable(): Observable<string | undefined> {
    return new Observable((out) => {
      out.next(this.locks.current()?.key);
      out.complete();
    });
  }

  @Sse('late-events')
  @Locked('events')
  async lateEvents(): Promise<Observable<MessageEvent>> {
    await this.stage.reach('handler');
    return new Observable(() => this.stage.note('started'));
  }

  @Get('late-values')
  @Locked('late-values')
  async lateValues(): Promise<Observable<string>> {
    await this.stage.reach('handler');
    return new Observable<string>(() => () => this.stage.note('producer torn down'));
  }

  @Get('fallback/:id')
  @Locked('goods:<id>', { waitMs: 0, onBusy: async (busy, id: string) => ({ busy: busy.code, id }) })
  async fallback(@Param('id') id: string): Promise<{ busy: string; id: string }> {
    return { busy: 'no', id };
  }

  @Get('when/:id')
  @Locked('goods:<id>', { when: (id: string) => id !== 'free' })
  async when(@Param('id') _id: string, @CurrentLock() lock?: Lock): Promise<unknown> {
    return { key: lock?.key ?? 'none' };
  }

  @Get('shared')
  @Locked('shared', { mode: 'shared' })
  async shared(@CurrentLock() { mode }: Lock): Promise<string> {
    await this.stage.reach('handler');
    return mode;
  }

  @Get('lost')
  @Locked('lost')
  async lost(@LockSignal() signal: AbortSignal): Promise<string> {
    await this.stage.reach('handler');
    this.stage.note(`aborted ${signal.aborted}`);
    return 'finished';
  }

  @Get('lost/ignored')
  @Locked('lost', { onLost: 'ignore' })
  async lostIgnored(): Promise<string> {
    await this.stage.reach('handler');
    return 'finished';
  }

  @Get('inner-busy')
  @Locked('outer')
  async innerBusy(): Promise<void> {
    await this.locks.withLock('goods:7', { waitMs: 0 }, () => undefined);
  }
}

@LockDefaults({ waitMs: 0, http: { busy: 409 } })
@UseInterceptors(Transaction)
@Controller('class')
class ClassController {
  constructor(@Inject(Stage) private readonly stage: Stage) {}

  @Get('locked')
  @Locked('class')
  async locked(): Promise<void> {
    this.stage.note('handler');
  }

  @Get('free')
  free(): void {
    this.stage.note('free');
  }
}

@Injectable()
class TrimPipe implements PipeTransform {
  transform(value: unknown): unknown {
    return typeof value === 'string' ? value.trim() : value;
  }
}

@Injectable()
class LowerPipe implements PipeTransform<string> {
  transform(value: string): string {
    return value.toLowerCase();
  }
}

@Injectable({ scope: Scope.REQUEST })
class TenantPipe implements PipeTransform<string> {
  constructor(@Inject(REQUEST) private readonly request: { headers: Record<string, string> }) {}

  transform(value: string): string {
    return `${this.request.headers['x-tenant']}-${value}`;
  }
}

@Injectable()
class Login implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    context.switchToHttp().getRequest<{ user?: { id: number } }>().user = { id: 7 };
    return true;
  }
}

@Injectable()
class Retry implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(retry(1));
  }
}

@Injectable()
class OtherLock implements NestInterceptor {
  constructor(@Inject(LockService) private readonly locks: LockService) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return defer(() => this.locks.withLock('inner', () => lastValueFrom(next.handle())));
  }
}

@UseGuards(Login)
@UsePipes(LowerPipe)
@Controller('pipes')
class PipesController {
  private tries = 0;
  constructor(@Inject(Stage) private readonly stage: Stage) {}

  @Get('plain/:id')
  @Locked('p:<id>')
  async plain(@Param('id') id: string, @CurrentLock() lock: Lock): Promise<unknown> {
    return { id, key: lock.key };
  }

  @Get('scoped/:id')
  @Locked('p:<params.id>')
  async scoped(@Param('id', TenantPipe) id: string, @CurrentLock() lock: Lock): Promise<unknown> {
    return { id, key: lock.key };
  }

  @Get('user')
  @Locked('u:<user.id>')
  @UseInterceptors(OtherLock)
  async user(@CurrentLock() lock?: Lock): Promise<unknown> {
    return { key: lock?.key };
  }

  @Get('retry')
  @Locked('retry')
  @UseInterceptors(Retry)
  async retry(@CurrentLock() lock: Lock): Promise<string> {
    this.tries += 1;
    this.stage.note(`try ${this.tries} ${lock.validForMs > 0}`);
    if (this.tries === 1) throw new Error('once more');
    return 'ok';
  }
}

describe.each(ADAPTERS)('@Locked on handlers of %s', (adapter) => {
  let started: StartedApp;
  let { app, stage, locks } = {} as StartedApp;

  beforeAll(async () => {
    started = await startApp(adapter, { controllers: [GoodsController, ClassController] });
    ({ app, stage, locks } = started);
  });
  beforeEach(() => void (stage.log.length = 0));
  afterAll(() => app.close());

  const isFree = async (key: string): Promise<boolean> => (await locks.inspect(key)) === null;
  const json = async (path: string, init?: RequestInit): Promise<unknown> =>
    (await started.fetch(path, init)).json();

  it('the lock is held while the handler runs and given back after', async () => {
    const answer = started.fetch('/goods/1', { method: 'POST' });
    await until(() => stage.isAt('handler'));
    expect((await locks.inspect('goods:1'))?.holders).toHaveLength(1);
    stage.go('handler');
    expect(await (await answer).json()).toEqual({ id: 1 });
    await until(() => isFree('goods:1'));
  });

  it('a wait that runs out answers 423 with Retry-After and without key or holder', async () => {
    const first = started.fetch('/goods/2', { method: 'POST' });
    await until(() => stage.isAt('handler'));
    const second = await started.fetch('/goods/2', { method: 'POST' });
    expect(second.status).toBe(423);
    expect(second.headers.get('retry-after')).toBe('1');
    const text = await second.text();
    expect(JSON.parse(text)).toMatchObject({ statusCode: 423, error: 'Locked', code: 'LOCK_WAIT_TIMEOUT' });
    expect(text).not.toContain('goods');
    stage.go('handler');
    await first;
  });

  it('two spellings of a number behind ParseIntPipe are one lock', async () => {
    const first = started.fetch('/goods/042', { method: 'POST' });
    await until(() => stage.isAt('handler'));
    expect((await started.fetch('/goods/42', { method: 'POST' })).status).toBe(423);
    stage.go('handler');
    await first;
  });

  it("an invalid value gets the pipe's own answer before any lock is taken", async () => {
    const answer = await started.fetch('/goods/abc', { method: 'POST' });
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({ message: 'Validation failed (numeric string is expected)' });
  });

  it('a request that names no key answers 400', async () => {
    const answer = await started.fetch('/keys?page=1');
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({ code: 'LOCK_KEY' });
    expect((await started.fetch('/keys?user=u&page=x')).status).toBe(400);
    expect((await started.fetch('/keys?user=u&user=v&page=1')).status).toBe(400);
  });

  it('keys come from query, headers, custom decorators and filters', async () => {
    expect(await json('/keys?user=a%3Ab&page=007', { headers: { 'x-tenant': 'ACME' } })).toEqual([
      'u:a%3Ab',
      'q:7',
      'h:acme',
      't:ACME',
    ]);
  });

  it('a key function gets arguments that have been over their pipes', async () => {
    const answer = await started.fetch('/function/041', { headers: { 'x-tenant': 'acme' } });
    expect(await answer.text()).toBe('f:41:acme');
  });

  it('@CurrentLock and @LockSignal give the lock of this call, in any position', async () => {
    expect(await json('/held/3')).toEqual({
      id: '3',
      key: 'goods:3',
      token: expect.any(Number),
      aborted: false,
      current: 'goods:3',
    });
  });

  it("the handler's error reaches the client, and the lock is given back", async () => {
    const answer = await started.fetch('/fails/4');
    expect(answer.status).toBe(409);
    expect(await answer.json()).toMatchObject({ message: 'no more 4' });
    await until(() => isFree('goods:4'));
  });

  it.each(['above', 'below'])(
    'a transaction of the method %s @Locked begins and commits under the lock',
    async (where) => {
      expect((await started.fetch(`/transaction/${where}`)).status).toBe(200);
      expect(stage.log).toEqual(['begin locked', 'handler', 'commit locked']);
      await until(() => isFree('transaction'));
    },
  );

  it('a transaction of the class begins and commits under the lock, and unlocked routes stay unlocked', async () => {
    expect((await started.fetch('/class/locked')).status).toBe(200);
    expect((await started.fetch('/class/free')).status).toBe(200);
    expect(stage.log).toEqual([
      'begin locked',
      'handler',
      'commit locked',
      'begin unlocked',
      'free',
      'commit unlocked',
    ]);
  });

  it('@LockDefaults of the class hold for its methods, statuses included', async () => {
    const mine = await locks.acquire('class');
    expect((await started.fetch('/class/locked')).status).toBe(409);
    await mine.release();
  });

  it('a timeout inside answers at once and does not free the lock under the running handler', async () => {
    expect((await started.fetch('/timeout/inside')).status).toBe(409);
    expect(await isFree('timeout')).toBe(false);
    stage.go('handler');
    await until(() => isFree('timeout'));
  });

  it('a handler whose request was answered while pipes were pending does not start', async () => {
    expect((await started.fetch('/timeout/pipe/1')).status).toBe(409);
    expect(await isFree('timeout')).toBe(true);
    await until(() => stage.log.includes('pipe done'));
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(stage.log).not.toContain('ran too late');
  });

  it('a client that leaves while the handler runs does not free the lock', async () => {
    const client = new AbortController();
    const answer = started.fetch('/goods/6', { method: 'POST', signal: client.signal }).catch(() => 'left');
    await until(() => stage.isAt('handler'));
    client.abort();
    expect(await answer).toBe('left');
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(await isFree('goods:6')).toBe(false);
    stage.go('handler');
    await until(() => isFree('goods:6'));
  });

  it('an Observable is subscribed under the lock, which is held until it ends', async () => {
    expect(await (await started.fetch('/values')).text()).toBe('values');
    await until(() => isFree('values'));
  });

  it('events that a handler returns after its client has left are not started, and the lock is given back', async () => {
    const client = new AbortController();
    const answer = started.fetch('/late-events', { signal: client.signal }).catch(() => 'left');
    await until(() => stage.isAt('handler'));
    client.abort();
    await answer;
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(await isFree('events')).toBe(false);
    stage.go('handler');
    await until(() => isFree('events'));
    expect(stage.log).not.toContain('started');
  });

  it('an Observable that comes out of a promise is held until the client leaves', async () => {
    const client = new AbortController();
    const answer = started.fetch('/late-values', { signal: client.signal }).catch(() => 'left');
    await until(() => stage.isAt('handler'));
    stage.go('handler');
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(await isFree('late-values')).toBe(false);
    client.abort();
    await answer;
    await until(() => isFree('late-values'));
    expect(stage.log).toContain('producer torn down');
  });

  it('a handler that calls itself for another id takes a lock of its own', async () => {
    expect(await json('/nested/outer')).toEqual(['nested:outer', 'nested:inner']);
    await until(() => isFree('nested:inner'));
  });

  it('onBusy answers in place of the handler with its arguments', async () => {
    const mine = await locks.acquire('goods:8');
    expect(await json('/fallback/8')).toEqual({ busy: 'LOCK_WAIT_TIMEOUT', id: '8' });
    await mine.release();
    expect(await json('/fallback/8')).toEqual({ busy: 'no', id: '8' });
  });

  it('with mode shared lets readers in together, and keeps writers out', async () => {
    const answer = started.fetch('/shared');
    await until(() => stage.isAt('handler'));
    expect(await locks.tryAcquire('shared')).toBeNull();
    await locks.withLock('shared', { mode: 'shared', waitMs: 0 }, () => stage.go('handler'));
    expect(await (await answer).text()).toBe('shared');
  });

  it('a call for which `when` says no runs without the lock', async () => {
    const mine = await locks.acquire('goods:free');
    expect(await json('/when/free')).toEqual({ key: 'none' });
    expect(await json('/when/9')).toEqual({ key: 'goods:9' });
    await mine.release();
  });

  it('a loss answers 503 without Retry-After at once, and the handler sees its signal abort', async () => {
    const asked = started.fetch('/lost');
    await until(() => stage.isAt('handler'));
    await locks.forceRelease('lost');
    const answer = await asked;
    expect(answer.status).toBe(503);
    expect(answer.headers.get('retry-after')).toBeNull();
    expect(await answer.json()).toMatchObject({ code: 'LOCK_LOST' });
    stage.go('handler');
    await until(() => stage.log.includes('aborted true'));
  });

  it('a loss under onLost: ignore keeps the result', async () => {
    const answer = started.fetch('/lost/ignored');
    await until(() => stage.isAt('handler'));
    await locks.forceRelease('lost');
    stage.go('handler');
    expect(await (await answer).text()).toBe('finished');
  });

  it('a lock error of code inside the handler gets its status from the filter', async () => {
    const mine = await locks.acquire('goods:7');
    const answer = await started.fetch('/inner-busy');
    expect(answer.status).toBe(423);
    expect(answer.headers.get('retry-after')).toBe('1');
    await mine.release();
  });
});

describe.each(ADAPTERS)('what stands between the request and a @Locked handler on %s', (adapter) => {
  let started: StartedApp;

  beforeAll(async () => {
    started = await startApp(adapter, { controllers: [PipesController] }, (app) =>
      app.useGlobalPipes(new TrimPipe()),
    );
  });
  afterAll(() => started.app.close());

  const json = async (path: string): Promise<unknown> =>
    (await started.fetch(path, { headers: { 'x-tenant': 'acme' } })).json();

  it('pipes of the application and of the class are applied to the key', async () => {
    expect(await json('/pipes/plain/%20ABC%20')).toEqual({ id: 'abc', key: 'p:abc' });
  });

  it('a request-scoped pipe of the parameter is applied to the key', async () => {
    expect(await json('/pipes/scoped/X')).toEqual({ id: 'acme-x', key: 'p:acme-x' });
  });

  it('an interceptor inside that takes another lock does not hide the lock of the handler', async () => {
    expect(await json('/pipes/user')).toEqual({ key: 'u:7' });
  });

  it('a retry inside runs the handler twice under one lock', async () => {
    const events = outcomesOf(started.locks);
    expect(await (await started.fetch('/pipes/retry')).text()).toBe('ok');
    await until(() => events.includes('released retry'));
    expect(events).toEqual(['acquired retry', 'released retry']);
    expect(started.stage.log).toEqual(['try 1 true', 'try 2 true']);
  });
});

describe('a @Locked handler that other code calls', () => {
  it('locks by its arguments, and is refused where the key is a part of a request', async () => {
    const { app } = await startApp('express', { controllers: [GoodsController, PipesController] });
    expect(await app.get(GoodsController).nested('direct')).toEqual(['nested:direct']);
    await expect((await app.resolve(PipesController)).user()).rejects.toThrow(
      'No key for PipesController.user: <user.id> is a part of a request, and this is a plain call of the method.',
    );
    await app.close();
  });
});

describe.each(ADAPTERS)('the end of an application on %s', (adapter) => {
  it('while holders finish, the server still answers: what runs ends well, what comes gets 503', async () => {
    const { app, stage, fetch } = await startApp(adapter, { controllers: [GoodsController] });
    const running = fetch('/goods/1', { method: 'POST' });
    await until(() => stage.isAt('handler'));
    const closing = app.close();
    const late = await fetch('/held/2');
    expect(late.status).toBe(503);
    expect(await late.json()).toMatchObject({ code: 'LOCK_SHUTDOWN' });
    stage.go('handler');
    expect((await running).status).toBe(201);
    await closing;
  });
});

describe.each(ADAPTERS)('@Locked under global interceptors of %s', (adapter) => {
  it('a timeout outside does not free the lock under the running handler, and in the queue it leaves the queue', async () => {
    const { app, stage, locks, fetch } = await startApp(adapter, { controllers: [GoodsController] }, (it) =>
      it.useGlobalInterceptors(new TimeoutInterceptor()),
    );
    expect((await fetch('/goods/1', { method: 'POST' })).status).toBe(409);
    expect((await locks.inspect('goods:1'))?.holders).toHaveLength(1);
    const events = outcomesOf(locks);
    expect((await fetch('/goods/1', { method: 'POST' })).status).toBe(409);
    expect(events).toEqual(['abandoned goods:1']);
    stage.go('handler');
    await until(async () => (await locks.inspect('goods:1')) === null);
    await app.close();
  });

  it('bound globally as well, it locks once, and around a global transaction that comes after it', async () => {
    const { app, stage, locks, fetch } = await startApp(adapter, {
      controllers: [GoodsController, ClassController],
      providers: [
        { provide: APP_INTERCEPTOR, useClass: LockedInterceptor },
        { provide: APP_INTERCEPTOR, useClass: Transaction },
      ],
    });
    const events = outcomesOf(locks);
    expect((await fetch('/held/1')).status).toBe(200);
    expect(stage.log).toEqual(['begin locked', 'commit locked']);
    await until(() => events.length === 2);
    expect(events).toEqual(['acquired goods:1', 'released goods:1']);
    keysMade = 0;
    expect((await fetch('/function/1', { headers: { 'x-tenant': 'acme' } })).status).toBe(200);
    expect(keysMade).toBe(1);
    await app.close();
  });

  it.each([
    [
      'inside of a lock that is registered',
      'locked',
      [{ provide: APP_INTERCEPTOR, useClass: LockedInterceptor }],
    ],
    ['outside of a lock that the method alone has', 'unlocked', []],
  ])('a transaction bound by useGlobalInterceptors is %s', async (_where, where, providers) => {
    const { app, stage, fetch } = await startApp(
      adapter,
      { controllers: [GoodsController], providers },
      (it) => void it.useGlobalInterceptors(new Transaction(it.get(Stage), it.get(LockService))),
    );
    expect((await fetch('/held/1')).status).toBe(200);
    expect(stage.log).toEqual([`begin ${where}`, `commit ${where}`]);
    await app.close();
  });
});
