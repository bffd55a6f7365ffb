import { describe, expect, it, vi } from 'vitest';
import { Locked } from 'nestjs-distributed-lock';
import { TestLocks } from 'nestjs-distributed-lock/testing';

class Orders {
  constructor(private readonly charge: (id: number) => Promise<void>) {}

  @Locked('order:<id>')
  async pay(id: number): Promise<string> {
    await this.charge(id);
    return `paid ${id}`;
  }
}

describe('an object with locked methods, in Vitest without globals and without a module,', () => {
  it.concurrent.each([1, 2, 3])('runs them under the locks of test %i', async (id) => {
    const locks = new TestLocks({ waitMs: 0 });
    const orders = locks.injectInto(new Orders(async () => undefined));
    await expect(locks.withLock('order:1', () => orders.pay(2))).resolves.toBe('paid 2');
    await orders.pay(id);
    expect(locks.acquired).toEqual(['order:1', 'order:2', `order:${id}`]);
  });

  it('waits for a busy key by fake timers', async () => {
    vi.useFakeTimers();
    const locks = new TestLocks({ waitMs: 60_000 });
    const orders = locks.injectInto(new Orders(async () => undefined));
    const lock = await locks.acquire('order:1');
    const refused = expect(orders.pay(1)).rejects.toThrow('Could not acquire "order:1" within 60000 ms');
    await vi.advanceTimersByTimeAsync(61_000);
    await refused;
    await lock.release();
    await expect(orders.pay(1)).resolves.toBe('paid 1');
    vi.useRealTimers();
  });

  it('says what to import when a test forgets the locks', async () => {
    const orders = new Orders(async () => undefined);
    await expect(orders.pay(1)).rejects.toThrow('import TestLocks from nestjs-distributed-lock/testing');
  });
});
