import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { until } from '#until';
import { Crowd } from './crowd.js';

const PROCESSES = 4;
const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);

function crowd(): () => Crowd {
  let opened: Crowd;
  beforeAll(async () => {
    opened = await Crowd.open();
  }, 20_000);
  afterAll(() => opened.close());
  return () => opened;
}

describe('readers and writers of 4 processes in a storm', () => {
  const TURNS = 4000;
  const callers = [...Array<string>(12).fill('readers'), ...Array<string>(3).fill('writers')];
  const own = crowd();
  let served: readonly (readonly number[])[];

  beforeAll(async () => {
    served = await own().run(PROCESSES, { role: 'storm', callers, turns: TURNS });
  }, 90_000);

  it('no writer is beside anybody', async () => {
    expect(own().violations).toBe(0);
    expect(sum(served.flat())).toBeGreaterThanOrEqual(TURNS);
  });

  it('readers are inside together', async () => {
    expect(Number(await own().redis.hget(`${own().key}:inside`, 'most readers'))).toBeGreaterThan(1);
    expect(await own().redis.hget(`${own().key}:inside`, 'most writers')).toBe('1');
  });

  it('neither side starves the other', () => {
    const turnsOf = (kind: string) => served.flatMap((turns) => turns.filter((_, i) => callers[i] === kind));
    const [readers, writers] = [turnsOf('readers'), turnsOf('writers')];
    expect(Math.min(...readers, ...writers)).toBeGreaterThan(TURNS / served.flat().length / 10);
    const ratio = sum(writers) / writers.length / (sum(readers) / readers.length);
    expect(ratio).toBeGreaterThan(1 / 10);
    expect(ratio).toBeLessThan(10);
  });

  it('nothing is left', async () => {
    await until(async () => (await own().remains()).length === 0);
    expect(await own().remains()).toEqual([]);
  });
});

describe('transfers between 8 accounts by 4 processes', () => {
  const [ACCOUNTS, TURNS, START] = [8, 2000, 1000];
  const own = crowd();
  let served: readonly (readonly number[])[];
  const accounts = () => Array.from({ length: ACCOUNTS }, (_, i) => `${own().key}:account:${i}`);

  beforeAll(async () => {
    await own().redis.mset(...accounts().flatMap((account) => [account, START]));
    const callers = Array<number>(6).fill(ACCOUNTS);
    served = await own().run(PROCESSES, { role: 'transfers', callers, turns: TURNS });
  }, 90_000);

  it('none of them waits for ever for two locks that others hold', () => {
    expect(sum(served.flat())).toBeGreaterThanOrEqual(TURNS);
    expect(Math.min(...served.flat())).toBeGreaterThan(0);
  });

  it('no money is made or lost', async () => {
    const balances = (await own().redis.mget(...accounts())).map(Number);
    expect(sum(balances)).toBe(ACCOUNTS * START);
    expect(new Set(balances).size).toBeGreaterThan(1);
  });

  it('nothing is left', async () => {
    await until(async () => (await own().remains()).length === 0);
    expect(await own().remains()).toEqual([]);
  });
});

describe('permits over 4 processes, one of which is killed inside', () => {
  const [PERMITS, TURNS, LEASE_MS] = [3, 600, 1500];
  const own = crowd();
  let deadline: number;
  let served: readonly (readonly number[])[];

  beforeAll(async () => {
    const limits = { permits: PERMITS, watchdogTimeoutMs: LEASE_MS };
    const victim = own().start({ role: 'hold', callers: [2], ...limits });
    await victim.hear('held');
    const permitsKey = `{${own().key}}:timeout`;
    const [held = ''] = await own().redis.zrange(permitsKey, '0', '0');
    const others = own().run(PROCESSES - 1, {
      role: 'permits',
      callers: [1, 1, 2, 3],
      turns: TURNS,
      ...limits,
    });
    // Somebody is inside beside it, and somebody waits for what it has.
    await until(async () => (await own().redis.zcard(`nest_lock_queue:{${own().key}}`)) > 0);
    await victim.kill();
    deadline = Number(await own().redis.zscore(permitsKey, held));
    served = await others;
  }, 90_000);

  it('never more than that many are inside', async () => {
    expect(own().violations).toBe(0);
    expect(await own().redis.hget(`${own().key}:inside`, 'most permits')).toBe(String(PERMITS));
  });

  it('what the dead one had comes back when its lease is over, and not before', async () => {
    // Until then there is room for one permit beside it.
    expect(Number(await own().redis.get(`${own().key}:several`))).toBeGreaterThanOrEqual(deadline);
    expect(deadline).toBeGreaterThan(0);
    expect(sum(served.flat())).toBeGreaterThanOrEqual(TURNS);
  });

  it('all are served, whatever they need', () => {
    expect(Math.min(...served.flat())).toBeGreaterThan(0);
  });

  it('nothing is left', async () => {
    await until(async () => (await own().remains()).length === 0);
    expect(await own().remains()).toEqual([]);
  });
});
