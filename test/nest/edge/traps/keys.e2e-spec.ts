import { describe, expect, it } from '@jest/globals';
import { All, Controller, Injectable, Param } from '@nestjs/common';
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

  it('of two values tell where one ends and the other begins', async () => {
    @Injectable()
    class Pairs {
      @Locked('pair:<one>:<two>')
      async of(one: string, two: string, @CurrentLock() lock?: Lock): Promise<string | undefined> {
        return one && two && lock?.key;
      }
    }
    const { app } = await fresh({ providers: [Pairs] });
    const pairs = app.get(Pairs);
    expect(await pairs.of('x:y', 'z')).not.toBe(await pairs.of('x', 'y:z'));
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
});
