import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { CurrentLock, DistributedLockModule, LockService, Locked, type Lock } from '../index.js';
import { RunnerClock } from './manual-clock.js';
import { TestLocks } from './test-locks.js';

interface Ledger {
  pay(id: number): Promise<void>;
}

const atOnce: Ledger = { pay: async () => undefined };

@Injectable()
class Orders {
  constructor(readonly ledger: Ledger = atOnce) {}

  @Locked('order:<id>')
  async pay(id: number): Promise<string> {
    await this.ledger.pay(id);
    return `paid ${id}`;
  }

  @Locked('report', { name: 'reports' })
  async report(): Promise<string> {
    return 'report';
  }

  @Locked('till')
  static async open(@CurrentLock() lock?: Lock): Promise<boolean> {
    return lock !== undefined;
  }
}

@Injectable()
class Refunds {
  @Locked('order:<id>')
  async refund(id: number): Promise<string> {
    return `refunded ${id}`;
  }
}

/** A ledger that answers when the test says so. */
class SlowLedger implements Ledger {
  answer!: () => void;
  private onAsked!: () => void;
  readonly asked = new Promise<void>((resolve) => (this.onAsked = resolve));
  private readonly answered = new Promise<void>((resolve) => (this.answer = resolve));

  pay(): Promise<void> {
    this.onAsked();
    return this.answered;
  }
}

describe('an object with locked methods that a test has made by new', () => {
  it('can be made without locks, and a call of such a method says what to import', async () => {
    const orders = new Orders();
    await expect(orders.pay(1)).rejects.toThrow(
      'In a unit test without a module import TestLocks from nestjs-distributed-lock/testing, and write new TestLocks().injectInto(…) around the object.',
    );
    await expect(orders.report()).rejects.toThrow("new TestLocks({ name: 'reports' }).injectInto(…)");
  });

  it('runs its locked methods under the locks of the test, which name the keys acquired', async () => {
    const locks = new TestLocks({ keyPrefix: 'shop:' });
    const orders = locks.injectInto(new Orders());
    expect(locks.acquired).toEqual([]);
    expect(await orders.pay(7)).toBe('paid 7');
    await locks.withLock('order:8', () => orders.pay(8));
    expect(locks.acquired).toEqual(['order:7', 'order:8']);
  });

  it('looks like one without locks to matchers and copies', () => {
    const locks = new TestLocks();
    expect(locks.injectInto(new Orders())).toEqual(new Orders());
    expect(Object.assign({}, locks.injectInto(new Orders()))).toEqual({ ledger: atOnce });
  });

  it('excludes other objects that were given the same locks', async () => {
    const locks = new TestLocks({ waitMs: 0 });
    const ledger = new SlowLedger();
    const orders = locks.injectInto(new Orders(ledger));
    const refunds = locks.injectInto(new Refunds());
    const paying = orders.pay(1);
    await ledger.asked;
    await expect(refunds.refund(1)).rejects.toMatchObject({ code: 'LOCK_WAIT_TIMEOUT' });
    expect(await refunds.refund(2)).toBe('refunded 2');
    ledger.answer();
    expect(await paying).toBe('paid 1');
    expect(await refunds.refund(1)).toBe('refunded 1');
  });

  it('excludes no object of a test that runs at the same time', async () => {
    const ledger = new SlowLedger();
    const first = new TestLocks().injectInto(new Orders(ledger));
    const paying = first.pay(1);
    await ledger.asked;
    const second = new TestLocks({ waitMs: 0 });
    expect(await second.injectInto(new Orders()).pay(1)).toBe('paid 1');
    expect(second.acquired).toEqual(['order:1']);
    ledger.answer();
    await paying;
  });

  it('fails with the name of the key before Jest and Vitest give up on a wait', async () => {
    const locks = new TestLocks();
    const orders = locks.injectInto(new Orders());
    const lock = await locks.acquire('order:1');
    await expect(orders.pay(1)).rejects.toThrow('Could not acquire "order:1" within 1000 ms');
    await lock.release();
  });

  it('uses the locks of each registration that it names', async () => {
    const [locks, reports] = [new TestLocks(), new TestLocks({ name: 'reports' })];
    const orders = reports.injectInto(locks.injectInto(new Orders()));
    await orders.pay(1);
    await orders.report();
    expect([locks.acquired, reports.acquired]).toEqual([['order:1'], ['report']]);
  });

  it('may be given the locks of one test after those of another', async () => {
    const orders = new TestLocks().injectInto(new Orders());
    const locks = new TestLocks();
    await locks.injectInto(orders).pay(1);
    expect(locks.acquired).toEqual(['order:1']);
  });
});

describe('an event that a test waits for', () => {
  it('is the next one of its type that it wants', async () => {
    await using locks = new TestLocks();
    await locks.withLock('k', () => undefined);
    const second = locks.waitFor('acquired', ({ key }) => key === 'l');
    const first = locks.waitFor('acquired');
    const token = await locks.withLock('k', (lock) => lock.fencingToken);
    await locks.withLock('l', () => undefined);
    expect(await first).toMatchObject({ type: 'acquired', key: 'k', fencingToken: token });
    expect(await second).toMatchObject({ type: 'acquired', key: 'l' });
  });

  it('lets a test go on at the moment at which a call waits', async () => {
    await using locks = new TestLocks();
    const held = await locks.acquire('k');
    const asked = locks.waitFor('asked');
    const waiting = locks.withLock('k', () => 'done');
    expect((await asked).key).toBe('k');
    await held.release();
    expect(await waiting).toBe('done');
  });

  it('is rejected when the locks are closed, and hurts nobody if no test waits any more', async () => {
    const locks = new TestLocks();
    const awaited = locks.waitFor('lost');
    void locks.waitFor('lost');
    await locks.close();
    await expect(awaited).rejects.toMatchObject({ code: 'LOCK_SHUTDOWN' });
    await expect(locks.waitFor('lost')).rejects.toThrow(
      'No "lost" event came before these locks were closed.',
    );
  });

  it('is rejected with what its filter throws', async () => {
    await using locks = new TestLocks();
    const found = locks.waitFor('asked', () => {
      throw new Error('the filter');
    });
    await locks.withLock('k', () => undefined);
    await expect(found).rejects.toThrow('the filter');
  });
});

describe('locks for the objects of a class', () => {
  it('serve objects that the code under test makes, and static methods', async () => {
    await using locks = new TestLocks();
    locks.injectInto(Orders.prototype);
    locks.injectInto(Orders);
    await new Orders().pay(3);
    expect(await Orders.open()).toBe(true);
    expect(locks.acquired).toEqual(['order:3', 'till']);
  });

  it('are gone with the test', async () => {
    const targets = [Orders.prototype, Orders, new Orders()];
    const before = targets.map((it) => Reflect.ownKeys(it));
    const locks = new TestLocks();
    for (const target of targets) locks.injectInto(target);
    expect(targets.map((it) => Reflect.ownKeys(it))).not.toEqual(before);
    await locks.close();
    expect(targets.map((it) => Reflect.ownKeys(it))).toEqual(before);
    await expect(new Orders().pay(1)).rejects.toThrow('no running application offers locks');
  });

  it('that were replaced by those of another test stay when the first test ends', async () => {
    const [first, second] = [new TestLocks(), new TestLocks()];
    first.injectInto(Orders.prototype);
    second.injectInto(Orders.prototype);
    await first.close();
    await new Orders().pay(1);
    expect(second.acquired).toEqual(['order:1']);
    await second.close();
  });
});

describe('a module beside the locks of a test', () => {
  const compile = () =>
    Test.createTestingModule({
      imports: [DistributedLockModule.forRoot({ logger: false })],
      providers: [Refunds],
    })
      .compile()
      .then((module) => module.init());

  it('keeps its own providers, and leaves other objects to the test', async () => {
    await using locks = new TestLocks();
    locks.injectInto(Refunds.prototype);
    const module = await compile();
    const keys: string[] = [];
    module.get(LockService).events$.subscribe((event) => event.type === 'acquired' && keys.push(event.key));
    await module.get(Refunds).refund(1);
    await new Refunds().refund(2);
    expect([keys, locks.acquired]).toEqual([['order:1'], ['order:2']]);
    await module.close();
  });

  it('has its providers refused by the locks of a test, in words', async () => {
    const module = await compile();
    expect(() => new TestLocks().injectInto(module.get(Refunds))).toThrow(
      'TestLocks.injectInto was given a Refunds that has the locks of a DistributedLockModule.',
    );
    await module.close();
  });

  it('is not needed by providers of a testing module without it', async () => {
    const module = await Test.createTestingModule({ providers: [Refunds] }).compile();
    const locks = new TestLocks();
    expect(await locks.injectInto(module.get(Refunds)).refund(1)).toBe('refunded 1');
    await module.close();
  });
});

describe.each([
  ['all of them', {}],
  ['all but performance', { doNotFake: ['performance' as const] }],
])('with fake timers, %s,', (_which, config) => {
  afterEach(() => {
    jest.useRealTimers();
  });

  it('a call for a free key needs none of them', async () => {
    jest.useFakeTimers(config);
    const locks = new TestLocks();
    expect(await locks.injectInto(new Orders()).pay(1)).toBe('paid 1');
    expect(await locks.injectInto(new Orders()).pay(1)).toBe('paid 1');
  });

  it('the next caller is let in by the release, without any time passing', async () => {
    jest.useFakeTimers(config);
    const locks = new TestLocks();
    const ledger = new SlowLedger();
    const orders = locks.injectInto(new Orders(ledger));
    const both = [orders.pay(1), orders.pay(1)];
    await ledger.asked;
    ledger.answer();
    expect(await Promise.all(both)).toEqual(['paid 1', 'paid 1']);
  });

  it('a wait ends when its time has passed on them', async () => {
    jest.useFakeTimers(config);
    const locks = new TestLocks({ waitMs: 60_000 });
    const lock = await locks.acquire('order:1');
    const refused = locks.injectInto(new Orders()).pay(1).catch(String);
    await jest.advanceTimersByTimeAsync(61_000);
    expect(await refused).toContain('within 60000 ms');
    await lock.release();
  });

  it('a lock is held for as long as its work, however far they are moved', async () => {
    jest.useFakeTimers(config);
    const locks = new TestLocks();
    const ledger = new SlowLedger();
    const paying = locks.injectInto(new Orders(ledger)).pay(1);
    await ledger.asked;
    jest.runAllTimers();
    jest.advanceTimersByTime(20 * 24 * 3_600_000);
    jest.setSystemTime(new Date('2049-12-24'));
    ledger.answer();
    expect(await paying).toBe('paid 1');
  });

  it('a lock is held across their removal', async () => {
    jest.useFakeTimers(config);
    const locks = new TestLocks();
    const lock = await locks.acquire('order:1');
    jest.useRealTimers();
    lock.assertHeld();
    expect(await lock.release()).toBe('released');
  });

  it('the clock of these locks never goes back', () => {
    const clock = new RunnerClock();
    const times = [clock.now()];
    jest.useFakeTimers(config);
    times.push(clock.now());
    jest.advanceTimersByTime(5000);
    times.push(clock.now());
    jest.useRealTimers();
    times.push(clock.now());
    jest.useFakeTimers(config);
    times.push(clock.now());
    expect(times).toEqual(times.toSorted((a, b) => a - b));
  });
});
