import { randomUUID } from 'node:crypto';
import { beforeEach, describe, expect, it } from '@jest/globals';
import type { ResultStore } from 'nestjs-distributed-lock/once';
import { until } from '#until';

/** What every result store must do. */
export function describeResultStore(name: string, open: () => ResultStore | Promise<ResultStore>): void {
  describe(`results: ${name}`, () => {
    let results: ResultStore;
    let key: string;
    beforeEach(async () => {
      results = await open();
      await results.prepare?.();
      key = `order:${randomUUID()}`;
    });
    const HOUR_MS = 3_600_000;

    it('a key without a result has none', async () => {
      expect(await results.read(key)).toBeUndefined();
    });

    it.each([
      '{"a":1}',
      '',
      'a text of several\nlines, with "quotes" and \u{1f512}',
      ' 12 begins like a token',
    ])('a text is read as it was written: %j', async (text) => {
      expect(await results.write(key, { token: 7, text }, HOUR_MS)).toBe(true);
      expect(await results.read(key)).toEqual({ token: 7, text });
    });

    it('a publisher with a smaller token cannot overwrite the result of its successor', async () => {
      const now = 1_795_237_040_328_123;
      expect(await results.write(key, { token: now + 1, text: 'new' }, HOUR_MS)).toBe(true);
      expect(await results.write(key, { token: now, text: 'late' }, HOUR_MS)).toBe(false);
      expect(await results.read(key)).toEqual({ token: now + 1, text: 'new' });
    });

    it('a write that is repeated, because its reply was lost, succeeds', async () => {
      for (const _ of [1, 2]) expect(await results.write(key, { token: 3, text: 'x' }, HOUR_MS)).toBe(true);
      expect(await results.write(key, { token: 4, text: 'y' }, HOUR_MS)).toBe(true);
      expect(await results.read(key)).toEqual({ token: 4, text: 'y' });
    });

    it('a result is gone when its time is over, and a smaller token may then write', async () => {
      await results.write(key, { token: 9, text: 'x' }, 50);
      await until(async () => (await results.read(key)) === undefined);
      expect(await results.write(key, { token: 8, text: 'y' }, HOUR_MS)).toBe(true);
      expect(await results.read(key)).toEqual({ token: 8, text: 'y' });
    });

    it('a result that is removed is gone, and others stay', async () => {
      const other = `${key}:2`;
      await results.write(key, { token: 1, text: 'x' }, HOUR_MS);
      await results.write(other, { token: 1, text: 'y' }, HOUR_MS);
      await results.remove(key);
      expect(await results.read(key)).toBeUndefined();
      expect(await results.read(other)).toEqual({ token: 1, text: 'y' });
    });

    it('a second process that prepares the store harms nothing', async () => {
      await results.write(key, { token: 1, text: 'x' }, HOUR_MS);
      await results.prepare?.();
      expect(await results.read(key)).toEqual({ token: 1, text: 'x' });
    });
  });
}
