import { describe, expect, it, jest } from '@jest/globals';
import {
  All,
  Body,
  Controller,
  Headers,
  Injectable,
  Logger,
  Param,
  Post,
  Query,
  createParamDecorator,
} from '@nestjs/common';
import { CurrentLock, Locked, lockKey, type Lock } from 'nestjs-distributed-lock';
import { fresh } from './fresh.js';

describe('keys', () => {
  it('with dots are not cut: two of them are two locks', async () => {
    @Injectable()
    class Bills {
      @Locked('bill.create')
      async create(@CurrentLock() lock?: Lock): Promise<string | undefined> {
        return lock?.key;
      }

      @Locked('bill.cancel', { waitMs: 0 })
      async cancel(@CurrentLock() lock?: Lock): Promise<string | undefined> {
        return lock?.key;
      }
    }
    const { app, locks } = await fresh({ providers: [Bills] });
    const mine = await locks.acquire('bill.create');
    expect(await app.get(Bills).cancel()).toBe('bill.cancel');
    await mine.release();
    expect(await app.get(Bills).create()).toBe('bill.create');
  });

  it('are made of a deep property, and of a missing one or an object none is', async () => {
    @Injectable()
    class Orders {
      @Locked('deep:<_order.lines.0.item.sku>')
      async place(_order: unknown, @CurrentLock() lock?: Lock): Promise<string | undefined> {
        return lock?.key;
      }
    }
    const { app } = await fresh({ providers: [Orders] });
    const orders = app.get(Orders);
    expect(await orders.place({ lines: [{ item: { sku: 'x' } }] })).toBe('deep:x');
    await expect(orders.place({ lines: [] })).rejects.toMatchObject({ code: 'LOCK_KEY' });
    await expect(orders.place({ lines: [{ item: { sku: {} } }] })).rejects.toMatchObject({
      code: 'LOCK_KEY',
    });
  });

  it('of one name exclude each other from different services, and from code by hand', async () => {
    @Injectable()
    class Sales {
      @Locked('goods:<id>', { waitMs: 0 })
      async sell(id: number): Promise<number> {
        return id;
      }
    }
    @Injectable()
    class Returns {
      constructor(private readonly sales: Sales) {}

      @Locked('goods:<0>')
      async take(id: number): Promise<unknown> {
        // In a flow of its own, as another request would be.
        return new Promise((resolve) => resolve(this.sales.sell(id)));
      }
    }
    const { app, locks } = await fresh({ providers: [Sales, Returns] });
    await locks.withLock(lockKey`goods:${7}`, () => undefined);
    const mine = await locks.acquire(lockKey`goods:${7}`);
    await expect(app.get(Sales).sell(7)).rejects.toMatchObject({ code: 'LOCK_WAIT_TIMEOUT' });
    expect(await app.get(Sales).sell(8)).toBe(8);
    await mine.release();
    expect(await app.get(Returns).take(7)).toBe(7);
  });

  it('are made by each of several routes of a handler, and one without the parameter is refused', async () => {
    @Controller()
    class Goods {
      @All(['many', 'many/:id'])
      @Locked('many:<params.id|trim>')
      async many(@Param('id') _id: string, @CurrentLock() lock: Lock): Promise<string> {
        return lock.key;
      }
    }
    const { fetch } = await fresh({ controllers: [Goods] });
    expect(await (await fetch('/many/7', { method: 'PUT' })).text()).toBe('many:7');
    expect((await fetch('/many')).status).toBe(400);
  });

  it('that cannot be made are told to the log, by the placeholder and without a value', async () => {
    const debug = jest.spyOn(Logger.prototype, 'debug').mockReturnValue(undefined);
    @Controller()
    class Goods {
      @Post()
      @Locked('goods:<headers.x-tenant>:<body.sku>')
      async buy(): Promise<void> {}
    }
    const { fetch } = await fresh({ controllers: [Goods] });
    const form = new FormData();
    form.set('sku', 'secret');
    expect((await fetch('/', { method: 'POST', body: form, headers: { 'x-tenant': 'secret' } })).status).toBe(
      400,
    );
    expect((await fetch('/', { method: 'POST' })).status).toBe(400);
    const [ofForm, ofHeader] = debug.mock.calls.map(([text]) => String(text));
    expect(ofForm).toMatch(/^@Locked on Goods\.buy: .*<body\.sku>.* is undefined.*multipart form/);
    expect(ofHeader).toMatch(/^@Locked on Goods\.buy: .*<headers\.x-tenant>.* is undefined/);
    expect(`${ofForm}${ofHeader}`).not.toContain('secret');
    debug.mockRestore();
  });

  it.each<[what: string, named: string, key: unknown, method: string, args: ParameterDecorator[]]>([
    ['a header', 'header x-tenant', 'a:<query.id>:<headers.X-Tenant>', 'GET', []],
    ['a header of a parameter', 'header X-Tenant', 'a:<X-Tenant>', 'GET', [Headers('X-Tenant')]],
    ['a field', 'body.secret.sku', 'a:<body.secret.sku>', 'POST', []],
    ['a list', 'body.lines[].sku', 'a:<body.lines[].sku>', 'POST', []],
    ['a filter that refuses', 'query.id', 'a:<query.id|int>', 'GET', []],
    ['a parameter', 'query.sku', 'a:<sku>', 'GET', [Query('sku')]],
    ['a property of a parameter', 'body.secret.sku', 'a:<secret.sku>', 'POST', [Body('secret')]],
    ['a parameter by position', 'body.sku', 'a:<1.sku>', 'POST', [Query('id'), Body()]],
    ['a whole body', 'body', 'a:<0>', 'POST', [Body()]],
    ['a part of a route', 'params.sku', 'a:<params.sku>', 'GET', []],
    ['the user', '', 'a:<user.tenant>', 'GET', []],
    ['a parameter of the application', '', 'a:<0.tenant>', 'GET', [createParamDecorator(() => ({}))()]],
    ['a key function', '', () => lockKey`a:${'' as string}`, 'GET', []],
  ])('that cannot be made are told to the client by what it sends, not the value: %s', async (...row) => {
    const [, named, key, method, args] = row;
    class Goods {
      async buy(..._args: unknown[]): Promise<void> {}
    }
    for (const [position, decorate] of args.entries()) decorate(Goods.prototype, 'buy', position);
    const descriptor = Object.getOwnPropertyDescriptor(Goods.prototype, 'buy')!;
    const locked = Locked(key as string) as MethodDecorator;
    const decorated = Reflect.decorate([All(), locked], Goods.prototype, 'buy', descriptor);
    Object.defineProperty(Goods.prototype, 'buy', decorated);
    Reflect.decorate([Controller()], Goods);
    const { fetch } = await fresh({ controllers: [Goods] });
    const headers = { 'content-type': 'application/json' };
    const body = method === 'POST' ? { body: '{"secret":{"id":"secret"}}', headers } : {};
    const answer = await fetch('/?id=secret', { method, ...body });
    const detail = named && `: ${named} is missing or not valid`;
    expect(await answer.json()).toEqual({
      statusCode: 400,
      error: 'Bad Request',
      message: `The request does not name what it wants to use${detail}.`,
      code: 'LOCK_KEY',
    });
  });
});
