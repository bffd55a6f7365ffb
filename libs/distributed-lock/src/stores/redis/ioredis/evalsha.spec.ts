import { describe, expect, it } from '@jest/globals';
import { Command } from 'ioredis';
import { WireKeys } from '../redis.client.js';
import { evalShaOf } from './evalsha.js';

const NOBODY = { onReply: () => undefined, onError: () => undefined };

describe('EVALSHA with keys that are written once', () => {
  it.each([
    ['one key', ['a'], ['x', 1]],
    ['several', ['lock', 'nest_lock_queue:{lock}', 'nest_lock_meta:{lock}'], ['owner', 30_000, 0.5, -1, '']],
    ['more than ASCII', ['schlüssel', '鍵:😀', '\ud800'], ['größe', '"\r\n', 2 ** 53]],
    ['none of either', [], []],
  ])('is to the server what ioredis itself would write: %s', (_, names, args) => {
    const sha = 'f'.repeat(40);
    const theirs = new Command('evalsha', [sha, names.length, ...names, ...args]);
    const ours = new (evalShaOf(Command))(sha, new WireKeys(names), args, NOBODY);
    expect(ours.toWritable({})).toBe(theirs.toWritable({}));
    expect([ours.args, ours.getKeys(), ours.getSlot()]).toEqual([
      theirs.args,
      theirs.getKeys(),
      theirs.getSlot(),
    ]);
  });

  it('gives its reply, or its error, to its handler once', async () => {
    const told: unknown[] = [];
    const handler = {
      onReply: (value: unknown) => told.push(value),
      onError: (it: unknown) => told.push(it),
    };
    const make = () => new (evalShaOf(Command))('f'.repeat(40), new WireKeys([]), [], handler);
    make().resolve([Buffer.from('a'), 5]);
    expect(told).toEqual([['a', 5]]);
    const error = new Error('NOSCRIPT');
    make().reject(error);
    expect(told).toHaveLength(1);
    await Promise.resolve();
    expect(told).toEqual([['a', 5], error]);
  });
});
