import { describe, expect, it } from '@jest/globals';
import { Command, Redis } from 'ioredis';
import { WireKeys } from '../client.js';
import { evalShaClassFor } from './evalsha.js';

const EvalSha = evalShaClassFor(new Redis({ lazyConnect: true })) as NonNullable<
  ReturnType<typeof evalShaClassFor>
>;

describe('EVALSHA with keys that are written once', () => {
  it.each([
    ['one key', ['a'], ['x', 1]],
    ['several', ['lock', 'nest_lock_queue:{lock}', 'nest_lock_meta:{lock}'], ['owner', 30_000, 0.5, -1, '']],
    ['more than ASCII', ['schlüssel', '鍵:😀', '\ud800'], ['größe', '"\r\n', 2 ** 53]],
    ['none of either', [], []],
  ])('is to the server what ioredis itself would write: %s', (_, names, args) => {
    const sha = 'f'.repeat(40);
    const theirs = new Command('evalsha', [sha, names.length, ...names, ...args]);
    const ours = new EvalSha(sha, new WireKeys(names), args);
    expect(ours.toWritable({})).toBe(theirs.toWritable({}));
    expect([ours.args, ours.getKeys(), ours.getSlot()]).toEqual([
      theirs.args,
      theirs.getKeys(),
      theirs.getSlot(),
    ]);
  });
});
