import { AsyncLocalStorage } from 'node:async_hooks';
import { tracingChannel } from 'node:diagnostics_channel';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Controller, Get, Injectable, Param, Sse } from '@nestjs/common';
import { Locked, type LockAcquireMessage, type LockHoldMessage } from 'nestjs-distributed-lock';
import { defer, type Observable, of } from 'rxjs';
import { startApp } from '../nest/integration/stage.js';
import { until } from '#until';

const ACQUIRE = tracingChannel<string, LockAcquireMessage>('nestjs-distributed-lock:acquire');
const HOLD = tracingChannel<string, LockHoldMessage>('nestjs-distributed-lock:hold');

/** The name of the innermost operation around the present code, as a tracer keeps its active span. */
const active = new AsyncLocalStorage<string>();
const ended: string[] = [];
const onEnd = (message: unknown): void => void ended.push((message as LockHoldMessage).key);

beforeEach(() => {
  ended.length = 0;
  ACQUIRE.start.bindStore(active, ({ key }) => `acquire ${key}`);
  HOLD.start.bindStore(active, ({ key, site }) => `hold ${key} by ${site}`);
  HOLD.asyncEnd.subscribe(onEnd);
});
afterEach(() => {
  ACQUIRE.start.unbindStore(active);
  HOLD.start.unbindStore(active);
  HOLD.asyncEnd.unsubscribe(onEnd);
});

const around = (): string => active.getStore() ?? 'nothing';

@Injectable()
class Stock {
  @Locked('stock:<id>')
  async count(id: string): Promise<string> {
    return Promise.resolve(id).then(around);
  }

  @Locked('stream', { stream: true })
  watch(): Observable<string> {
    return defer(() => of(around()));
  }

  @Locked('steps')
  async *steps(): AsyncGenerator<string> {
    yield around();
  }
}

@Controller()
class Goods {
  constructor(private readonly stock: Stock) {}

  @Get('buy/:id')
  @Locked('goods:<id>')
  async buy(@Param('id') id: string): Promise<readonly string[]> {
    const outside = await Promise.resolve().then(around);
    return [outside, await this.stock.count(id)];
  }

  @Get('observe/:id')
  @Locked('goods:<id>')
  observe(@Param('id') _id: string): Observable<readonly string[]> {
    return defer(() => of([around()]));
  }

  @Sse('events/:id')
  @Locked('goods:<id>')
  events(@Param('id') _id: string): Observable<{ readonly data: string }> {
    return defer(() => of({ data: around() }));
  }

  @Get('free')
  free(): string {
    return around();
  }
}

describe('a tracer of the locks of an application', () => {
  it('finds locked handlers and methods inside their holds', async () => {
    const { app, fetch } = await startApp('express', { controllers: [Goods], providers: [Stock] });
    const read = async (path: string): Promise<unknown> => (await fetch(path)).text();
    expect(await read('/buy/1')).toBe(
      JSON.stringify(['hold goods:1 by Goods.buy', 'hold stock:1 by Stock.count']),
    );
    expect(await read('/observe/2')).toBe(JSON.stringify(['hold goods:2 by Goods.observe']));
    expect(await read('/events/3')).toContain('data: hold goods:3 by Goods.events');
    expect(await read('/free')).toBe('nothing');
    const stock = app.get(Stock);
    expect(await new Promise((resolve) => stock.watch().subscribe(resolve))).toBe(
      'hold stream by Stock.watch',
    );
    for await (const step of stock.steps()) expect(step).toBe('hold steps by Stock.steps');
    await until(() => ended.length === 6);
    expect(ended.toSorted()).toEqual(['goods:1', 'goods:2', 'goods:3', 'steps', 'stock:1', 'stream']);
    await app.close();
  });
});
