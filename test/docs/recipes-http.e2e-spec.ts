import { afterEach, describe, expect, it, jest } from '@jest/globals';
import {
  Controller,
  Get,
  NotFoundException,
  Param,
  type CallHandler,
  type ExecutionContext,
} from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { DistributedLockModule, LockService } from 'nestjs-distributed-lock';
import { ManualClock } from 'nestjs-distributed-lock/testing';
import { startApp, type StartedApp } from '../nest/integration/stage.js';
import { until } from '#until';
import { QuoteController } from './recipes/busy-answer.js';
import { Orders, OrdersController } from './recipes/double-submit.js';
import { EverythingFilter } from './recipes/everything-filter.js';
import { AppModule, TransactionInterceptor } from './recipes/global-transaction.js';
import { AppModule as ObservedModule } from './recipes/observed.js';
import { TransferController } from './recipes/several-keys.js';
import { ExportController } from './recipes/stream.js';
import { Ledger, LedgerController } from './recipes/streamed-report.js';
import { Payments, WebhookController } from './recipes/webhook.js';

const started: StartedApp[] = [];

async function start(...args: Parameters<typeof startApp> extends [unknown, ...infer R] ? R : never) {
  const app = await startApp('express', ...args);
  started.push(app);
  return app;
}

afterEach(async () => {
  await Promise.all(started.splice(0).map(({ app }) => app.close()));
  jest.restoreAllMocks();
});

const post = (body: unknown, headers: Record<string, string> = {}): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify(body),
});

/** The time that a slow piece of work takes. */
const aWhile = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 20));

describe('double submit', () => {
  class Memory extends Orders {
    readonly placed = new Map<string, { id: string; sku: string }>();
    created = 0;

    override async findByRequest(requestId: string) {
      await aWhile();
      return this.placed.get(requestId);
    }

    override async create(requestId: string, sku: string) {
      await aWhile();
      const order = { id: String(++this.created), sku };
      this.placed.set(requestId, order);
      return order;
    }
  }

  it('makes one order of a request that comes five times at once', async () => {
    const orders = new Memory();
    const { fetch } = await start({
      controllers: [OrdersController],
      providers: [{ provide: Orders, useValue: orders }],
    });
    const send = () => fetch('/orders', post({ sku: 'x' }, { 'idempotency-key': 'r1' }));
    const answers = await Promise.all(Array.from({ length: 5 }, send));
    expect(await Promise.all(answers.map((it) => it.json()))).toEqual(Array(5).fill({ id: '1', sku: 'x' }));
    expect(orders.created).toBe(1);
    await fetch('/orders', post({ sku: 'x' }, { 'idempotency-key': 'r2' }));
    expect(orders.created).toBe(2);
  });

  it('refuses a request without the header', async () => {
    const { fetch } = await start({
      controllers: [OrdersController],
      providers: [{ provide: Orders, useClass: Memory }],
    });
    expect((await fetch('/orders', post({ sku: 'x' }))).status).toBe(400);
  });
});

describe('a webhook', () => {
  class Ledger extends Payments {
    readonly applied: string[] = [];
    private readonly inside = new Set<string>();

    override async hasSeen(eventId: string): Promise<boolean> {
      await aWhile();
      return this.applied.includes(eventId);
    }

    override async apply({ id, payment }: { id: string; payment: { id: string } }): Promise<void> {
      if (this.inside.has(payment.id)) throw new Error('two events of one payment at once');
      this.inside.add(payment.id);
      await aWhile();
      this.applied.push(id);
      this.inside.delete(payment.id);
    }
  }
  const clock = new ManualClock();
  const event = (id: string, payment: string): RequestInit => post({ id, payment: { id: payment } });
  const provided = () => ({
    controllers: [WebhookController],
    providers: [{ provide: Payments, useClass: Ledger }],
  });

  it('applies an event once that is delivered twice, and events of one payment one by one', async () => {
    const { app, fetch } = await start(provided());
    const sent = [event('e1', 'p'), event('e1', 'p'), event('e2', 'p'), event('e3', 'q')];
    const answers = await Promise.all(sent.map((it) => fetch('/webhooks/payments', it)));
    expect(answers.map(({ status }) => status)).toEqual([204, 204, 204, 204]);
    expect([...app.get<Ledger>(Payments).applied].sort()).toEqual(['e1', 'e2', 'e3']);
  });

  it('answers 503 when the first delivery takes longer than the second one waits', async () => {
    const { locks, fetch } = await start({
      ...provided(),
      imports: [DistributedLockModule.forRoot({ clock, shutdownGraceMs: 0 })],
    });
    const asked: string[] = [];
    const mine = await locks.acquire('payment:p');
    locks.events$.subscribe(({ type }) => asked.push(type));
    const answer = fetch('/webhooks/payments', event('e1', 'p'));
    await until(() => asked.includes('asked'));
    await clock.advance(5000);
    expect((await answer).status).toBe(503);
    await mine.release();
  });
});

describe('several keys', () => {
  it('taken in opposite orders block nobody, and each has a token', async () => {
    const { fetch } = await start({ controllers: [TransferController] });
    const pairs = Array.from({ length: 10 }, (_, i) => (i % 2 ? ['a', 'b'] : ['b', 'a']));
    const answers = await Promise.all(pairs.map(([from, to]) => fetch('/transfers', post({ from, to }))));
    const tokens = (await Promise.all(answers.map((it) => it.json()))) as number[][];
    expect(tokens.every(([one, two]) => Number(one) > 0 && Number(two) > 0)).toBe(true);
  });

  it('come from a list, and none of them is passed over', async () => {
    const { fetch, locks } = await start({ controllers: [TransferController] });
    const seen: string[] = [];
    locks.events$.subscribe(({ type, key }) => type === 'acquired' && seen.push(String(key)));
    const items = [{ sku: 'x' }, { sku: 'y' }];
    expect(await (await fetch('/checkout', post({ items }))).text()).toBe('2');
    expect(seen).toEqual(['goods:x', 'goods:y']);
    expect((await fetch('/checkout', post({ items: [{ sku: 'x' }, {}] }))).status).toBe(400);
  });
});

describe('a stream', () => {
  it('holds the lock until the client leaves', async () => {
    const { fetch, locks } = await start({ controllers: [ExportController] });
    const client = new AbortController();
    const { body } = await fetch('/exports/7/progress', { signal: client.signal });
    const reader = body!.getReader();
    await reader.read();
    expect(await locks.tryAcquire('export:7')).toBeNull();
    client.abort();
    await reader.read().catch(() => undefined);
    await until(async () => (await locks.inspect('export:7')) === null);
  });
});

describe('a report that is sent while it is made', () => {
  it('holds its own lock and that of what it reads until it is sent', async () => {
    const { fetch, locks } = await start({ controllers: [LedgerController], providers: [Ledger] });
    const events: string[] = [];
    locks.events$.subscribe(({ type, key }) => events.push(`${type} ${key}`));
    const report = await (await fetch('/ledgers/2026')).text();
    expect(report.split('\n')).toHaveLength(14);
    await until(() => events.includes('released report:2026'));
    const order = events.filter((it) => /^(acquired|released)/.test(it));
    const [outer, inner] = ['report:2026', 'ledger:2026'];
    expect(order).toEqual([
      `acquired ${outer}`,
      `acquired ${inner}`,
      `released ${inner}`,
      `released ${outer}`,
    ]);
  });
});

describe('an answer instead of 423', () => {
  it('is given while the key is busy, and the real one when it is free', async () => {
    const { fetch, locks } = await start({ controllers: [QuoteController] });
    const read = async (): Promise<unknown> => (await fetch('/quotes/7')).json();
    await locks.withLock('quote:7', async () => {
      expect(await read()).toEqual({ id: '7', fresh: false });
    });
    expect(await read()).toEqual({ id: '7', price: 42, fresh: true });
  });
});

describe('a filter for everything', () => {
  @Controller()
  class ByHand {
    constructor(private readonly locks: LockService) {}

    @Get('busy/:id')
    busy(@Param('id') id: string): Promise<string> {
      return this.locks.withLock(`k:${id}`, { waitMs: 0 }, () => id);
    }

    @Get('missing')
    missing(): never {
      throw new NotFoundException();
    }

    @Get('broken')
    broken(): never {
      throw new TypeError('broken');
    }
  }

  it('answers lock errors by their meaning, and logs only what nobody expected', async () => {
    const logged = jest.spyOn(console, 'error').mockReturnValue(undefined);
    const { fetch, locks } = await start({ controllers: [ByHand] }, (app) =>
      app.useGlobalFilters(new EverythingFilter(app.get(HttpAdapterHost).httpAdapter)),
    );
    await locks.withLock('k:1', async () => expect((await fetch('/busy/1')).status).toBe(423));
    expect((await fetch('/missing')).status).toBe(404);
    expect(logged).not.toHaveBeenCalled();
    expect((await fetch('/broken')).status).toBe(500);
    expect(logged).toHaveBeenCalledWith('to be looked at', expect.any(TypeError));
  });
});

describe('a global transaction', () => {
  it('begins under the lock once LockedInterceptor is registered before it', async () => {
    const { fetch, app } = await start({ imports: [AppModule], controllers: [QuoteController] });
    const held: unknown[] = [];
    jest
      .spyOn(TransactionInterceptor.prototype, 'intercept')
      .mockImplementation((_context: ExecutionContext, next: CallHandler) => {
        held.push(app.get(LockService).current()?.key);
        return next.handle();
      });
    expect((await fetch('/quotes/7')).status).toBe(200);
    expect(held).toEqual(['quote:7']);
  });
});

describe('metrics, traces and health', () => {
  it('stand in one module, and the application is ready while Redis answers', async () => {
    const { fetch } = await start({ imports: [ObservedModule] });
    const answer = await fetch('/ready');
    expect(answer.status).toBe(200);
    expect(await answer.json()).toMatchObject({ details: { locks: { status: 'up' } } });
  });
});
