import {
  BadRequestException,
  Body,
  type CanActivate,
  Controller,
  type ExecutionContext,
  Get,
  HttpCode,
  Injectable,
  Param,
  Post,
  Res,
  StreamableFile,
  UseGuards,
} from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { DistributedLockModule } from 'nestjs-distributed-lock';
import { memoryResults, Once, OnceModule, OnceService } from 'nestjs-distributed-lock/once';
import { of } from 'rxjs';
import { until } from '#until';
import { failureOf } from '../support/lock-services.js';
import { ADAPTERS, Stage, startApp, type StartedApp } from '../nest/integration/stage.js';

const DAY_MS = 86_400_000;
const KEY = 'order:<headers.idempotency-key>';

interface Reply {
  status(code: number): unknown;
  header(name: string, value: string | string[]): unknown;
}

@Injectable()
class CountingGuard implements CanActivate {
  static passed = 0;
  canActivate(context: ExecutionContext): boolean {
    CountingGuard.passed += 1;
    const { headers } = context.switchToHttp().getRequest<{ headers: Record<string, string> }>();
    return headers['x-forbidden'] === undefined;
  }
}

@Controller('orders')
@UseGuards(CountingGuard)
class OrdersController {
  static runs = 0;
  constructor(private readonly stage: Stage) {}

  @Post()
  @Once(KEY, { keepForMs: DAY_MS, fingerprint: 'body' })
  create(@Body() body: object, @Res({ passthrough: true }) reply: Reply): object {
    OrdersController.runs += 1;
    reply.status(202);
    reply.header('Location', `/orders/${OrdersController.runs}`);
    reply.header('Set-Cookie', 'session=secret');
    return { id: OrdersController.runs, body };
  }

  @Post('slow')
  @Once(KEY, { keepForMs: DAY_MS, waitMs: 50 })
  async slow(): Promise<string> {
    OrdersController.runs += 1;
    await this.stage.reach('slow');
    return 'done';
  }

  @Post('patient')
  @Once(KEY, { keepForMs: DAY_MS })
  async patient(): Promise<string> {
    OrdersController.runs += 1;
    await this.stage.reach('patient');
    return 'done';
  }

  @Post('failing')
  @HttpCode(200)
  @Once(KEY, { keepForMs: DAY_MS })
  failing(): never {
    throw new BadRequestException(`run ${(OrdersController.runs += 1)}`);
  }

  @Post('gone')
  @Once(KEY, { keepForMs: DAY_MS, rememberFailure: (error) => error instanceof BadRequestException })
  gone(): never {
    throw new BadRequestException(`run ${(OrdersController.runs += 1)}`);
  }

  @Get('events')
  @Once(KEY, { keepForMs: DAY_MS })
  events() {
    OrdersController.runs += 1;
    return of('one', 'two');
  }

  @Get('nothing/:id')
  @Once('nothing:<id>', { keepForMs: DAY_MS })
  nothing(@Param('id') _id: string): void {
    OrdersController.runs += 1;
  }

  @Get('file')
  @Once(KEY, { keepForMs: DAY_MS })
  file(): StreamableFile {
    return new StreamableFile(Buffer.from('x'));
  }
}

describe.each(ADAPTERS)('a handler with @Once, on %s', (adapter) => {
  let server: StartedApp;
  let tests = 0;
  beforeAll(async () => {
    server = await startApp(adapter, {
      imports: [DistributedLockModule.forRoot(), OnceModule.forRoot({ results: memoryResults() })],
      controllers: [OrdersController],
    });
  });
  afterAll(() => server?.app.close());
  beforeEach(() => {
    OrdersController.runs = 0;
    tests += 1;
  });

  const post = async (path: string, { body = {}, headers = {}, method = 'POST' } = {}) => {
    const answer = await server.fetch(`/orders${path}`, {
      method,
      headers: { 'content-type': 'application/json', 'idempotency-key': `key-${tests}`, ...headers },
      ...(method === 'POST' && { body: JSON.stringify(body) }),
    });
    return { status: answer.status, headers: answer.headers, text: await answer.text() };
  };

  it('answers a repeated request with the stored status, body and headers, and marks it', async () => {
    const first = await post('', { body: { sku: 7 } });
    const second = await post('', { body: { sku: 7 } });
    expect(OrdersController.runs).toBe(1);
    for (const { status, headers, text } of [first, second]) {
      expect(status).toBe(202);
      expect(headers.get('location')).toBe('/orders/1');
      expect(headers.get('content-type')).toMatch('application/json');
      expect(JSON.parse(text)).toEqual({ id: 1, body: { sku: 7 } });
    }
    expect(first.headers.get('idempotent-replayed')).toBeNull();
    expect(second.headers.get('idempotent-replayed')).toBe('true');
  });

  it('does not hand the cookie of one client to another', async () => {
    expect((await post('')).headers.get('set-cookie')).toMatch('session');
    expect((await post('')).headers.get('set-cookie')).toBeNull();
  });

  it('answers 422 to another body under the same key', async () => {
    await post('', { body: { sku: 7 } });
    const other = await post('', { body: { sku: 8 } });
    expect(other.status).toBe(422);
    expect(JSON.parse(other.text)).toMatchObject({ code: 'ONCE_MISMATCH', statusCode: 422 });
    expect(other.text).not.toContain(`key-${tests}`);
  });

  it('answers 400 to a request without the key, and names the header', async () => {
    const answer = await post('', { headers: { 'idempotency-key': '' } });
    expect(answer.status).toBe(400);
    expect(answer.text).toContain('idempotency-key');
    expect(OrdersController.runs).toBe(0);
  });

  it('answers 409 with Retry-After while the first request is handled and waitMs is over', async () => {
    const first = post('/slow');
    await until(() => server.stage.isAt('slow'));
    const second = await post('/slow');
    expect([second.status, second.headers.get('retry-after')]).toEqual([409, '1']);
    expect(JSON.parse(second.text)).toMatchObject({ code: 'ONCE_RUNNING' });
    server.stage.go('slow');
    expect((await first).status).toBe(201);
    expect((await post('/slow')).text).toBe('done');
    expect(OrdersController.runs).toBe(1);
  });

  it('a request that comes meanwhile gets the answer of the first one', async () => {
    const first = post('/patient');
    await until(() => server.stage.isAt('patient'));
    const others = Array.from({ length: 10 }, () => post('/patient'));
    await until(
      async () => ((await server.locks.inspect(`once:order:key-${tests}`))?.pending.length ?? 0) > 0,
    );
    server.stage.go('patient');
    expect((await first).headers.get('idempotent-replayed')).toBeNull();
    for (const { status, text, headers } of await Promise.all(others)) {
      expect([status, text, headers.get('idempotent-replayed')]).toEqual([201, 'done', 'true']);
    }
    expect(OrdersController.runs).toBe(1);
  });

  it('the answer of a client that left while the handler ran is there for its next request', async () => {
    const leaving = new AbortController();
    const first = failureOf(
      server.fetch('/orders/patient', {
        method: 'POST',
        headers: { 'idempotency-key': `key-${tests}` },
        signal: leaving.signal,
      }),
    );
    await until(() => server.stage.isAt('patient'));
    leaving.abort();
    await first;
    server.stage.go('patient');
    expect((await post('/patient')).text).toBe('done');
    expect(OrdersController.runs).toBe(1);
  });

  it('a client that disconnects while its request waits leaves the queue', async () => {
    const first = post('/patient');
    await until(() => server.stage.isAt('patient'));
    const leaving = new AbortController();
    const headers = { 'idempotency-key': `key-${tests}` };
    const second = failureOf(
      server.fetch('/orders/patient', { method: 'POST', headers, signal: leaving.signal }),
    );
    const waiting = async () => (await server.locks.inspect(`once:order:key-${tests}`))?.pending.length ?? 0;
    await until(async () => (await waiting()) === 1);
    leaving.abort();
    await second;
    await until(async () => (await waiting()) === 0);
    server.stage.go('patient');
    expect((await first).text).toBe('done');
  });

  it('an error is not remembered, unless rememberFailure says so', async () => {
    for (const run of [1, 2]) expect((await post('/failing')).text).toContain(`run ${run}`);
    const texts = [await post('/gone', { headers: { 'idempotency-key': `gone-${tests}` } })];
    texts.push(await post('/gone', { headers: { 'idempotency-key': `gone-${tests}` } }));
    for (const { status, text } of texts) {
      expect(status).toBe(400);
      expect(text).toContain('run 3');
    }
    expect(texts.map(({ headers }) => headers.get('idempotent-replayed'))).toEqual([null, 'true']);
  });

  it('guards run for each request, so nobody reads the answer to a request that may not be made', async () => {
    await post('');
    CountingGuard.passed = 0;
    expect((await post('', { headers: { 'x-forbidden': 'yes' } })).status).toBe(403);
    expect(CountingGuard.passed).toBe(1);
  });

  it('a handler that returns nothing is run one time, and one that returns an Observable gives its last value', async () => {
    for (const _ of [1, 2]) expect((await post(`/nothing/${tests}`, { method: 'GET' })).text).toBe('');
    for (const _ of [1, 2]) expect((await post('/events', { method: 'GET' })).text).toBe('two');
    expect(OrdersController.runs).toBe(2);
  });

  it('a stream is refused with a message for the developer', async () => {
    expect((await post('/file', { method: 'GET' })).status).toBe(500);
  });
});

describe('the boot of an application with @Once', () => {
  const boot = async (controller: new () => object) => {
    const module = await Test.createTestingModule({
      imports: [DistributedLockModule.forRoot(), OnceModule.forRoot({ results: memoryResults() })],
      controllers: [controller],
    }).compile();
    try {
      await module.init();
    } finally {
      await module.close();
    }
  };

  it('fails for a placeholder that the handler does not read', async () => {
    @Controller()
    class Wrong {
      @Get()
      @Once('a:<sku>', { keepForMs: 1 })
      get(): void {}
    }
    expect(await failureOf(boot(Wrong))).toMatchObject({
      message: expect.stringContaining('@Once on Wrong.get: unknown <sku>'),
    });
  });

  it('fails for a method that no client calls, and for a handler that answers by itself', async () => {
    @Controller()
    class Plain {
      @Once('a', { keepForMs: 1 })
      get(): void {}
    }
    expect(await failureOf(boot(Plain))).toMatchObject({ message: expect.stringContaining('once.run') });
    @Controller()
    class Answering {
      @Get()
      @Once('a', { keepForMs: 1 })
      get(@Res() _reply: Reply): void {}
    }
    expect(await failureOf(boot(Answering))).toMatchObject({
      message: expect.stringContaining('passthrough'),
    });
  });

  it.each([
    [{ keepForMs: -1 }, 'keepForMs'],
    [{}, 'keepForMs'],
    [{ keepForMs: 1, fingerprint: 'header' }, 'fingerprint'],
    [{ keepForMs: 1, keepMs: 1 }, 'keepMs'],
  ])('a class with wrong options cannot be loaded: %j', (options, name) => {
    const load = () => {
      class Wrong {
        @Once('a', options as never)
        get(): void {}
      }
      return Wrong;
    };
    expect(load).toThrow(name);
  });

  it('a template that makes several keys is refused', () => {
    const load = () => {
      class Wrong {
        @Once('a:<body.items[].id>', { keepForMs: 1 })
        get(): void {}
      }
      return Wrong;
    };
    expect(load).toThrow('makes several keys');
  });

  it('fails without results, and the service is injectable with them', async () => {
    const compile = (options: object) =>
      Test.createTestingModule({
        imports: [DistributedLockModule.forRoot(), OnceModule.forRoot(options as never)],
      }).compile();
    expect(await failureOf(compile({}))).toMatchObject({
      message: expect.stringContaining('memoryResults()'),
    });
    expect(await failureOf(compile({ results: memoryResults(), name: 'other' }))).toMatchObject({
      message: expect.stringContaining('"other"'),
    });
    const module = await compile({ results: memoryResults() });
    expect(await module.get(OnceService).run('a', { keepForMs: 1000 }, () => 1)).toBe(1);
    await module.close();
  });

  it('takes its options from a factory, which may inject a client', async () => {
    const module = await Test.createTestingModule({
      imports: [
        DistributedLockModule.forRoot(),
        OnceModule.forRootAsync({ useFactory: async () => ({ results: memoryResults() }) }),
      ],
    }).compile();
    expect(await module.get(OnceService).run('a', { keepForMs: 1000 }, () => 1)).toBe(1);
    await module.close();
  });
});
