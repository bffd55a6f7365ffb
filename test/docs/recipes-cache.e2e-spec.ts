import { describe, expect, it } from '@jest/globals';
import { Test } from '@nestjs/testing';
import { DistributedLockModule, memoryStore } from 'nestjs-distributed-lock';
import { startApp } from '../nest/integration/stage.js';
import { until } from '#until';
import { Exchange, LastRates, RateController, type Rate } from './recipes/last-value.js';
import { Cache, Reports, Source } from './recipes/single-flight.js';

describe('the last value', () => {
  it('is the answer while another request fetches a new one, and 423 while there is none', async () => {
    const rates = new Map<string, Rate>();
    const answers: ((value: number) => void)[] = [];
    const last = {
      get: async (currency: string) => rates.get(currency),
      set: async (rate: Rate) => void rates.set(rate.currency, rate),
    };
    const rateOf = (): Promise<number> => new Promise((resolve) => answers.push(resolve));
    const { app, fetch } = await startApp('express', {
      controllers: [RateController],
      providers: [
        { provide: LastRates, useValue: last },
        { provide: Exchange, useValue: { rateOf } },
      ],
    });
    const first = fetch('/rates/eur');
    await until(() => answers.length === 1);
    expect((await fetch('/rates/eur')).status).toBe(423);
    answers[0]!(1.1);
    expect(await (await first).json()).toEqual({ currency: 'eur', value: 1.1 });

    const second = fetch('/rates/eur');
    await until(() => answers.length === 2);
    expect(await (await fetch('/rates/eur')).json()).toEqual({ currency: 'eur', value: 1.1 });
    answers[1]!(1.2);
    expect(await (await second).json()).toEqual({ currency: 'eur', value: 1.2 });
    await app.close();
  });
});

describe('a single flight', () => {
  it('computes a value once for the callers of all instances, and a failure for one of them only', async () => {
    const [store, cached] = [memoryStore(), new Map<string, string>()];
    let computed = 0;
    const cache = {
      get: async (key: string) => cached.get(key),
      set: async (key: string, value: string) => void cached.set(key, value),
    };
    const compute = async (id: string): Promise<string> => {
      computed += 1;
      if (computed === 1) throw new Error('the source is away');
      return `report ${id}, computed ${computed} times`;
    };
    const start = async () =>
      Test.createTestingModule({
        imports: [DistributedLockModule.forRoot({ store })],
        providers: [Reports, { provide: Cache, useValue: cache }, { provide: Source, useValue: { compute } }],
      }).compile();
    const apps = await Promise.all([start(), start()]);
    await Promise.all(apps.map((app) => app.init()));
    const calls = Array.from({ length: 20 }, (_, i) => apps[i % 2]!.get(Reports).report('7'));
    const settled = await Promise.allSettled(calls);
    expect(settled.filter(({ status }) => status === 'rejected')).toHaveLength(1);
    expect(computed).toBe(2);
    expect(await apps[0].get(Reports).report('7')).toBe('report 7, computed 2 times');
    await Promise.all(apps.map((app) => app.close()));
  });
});
