import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from '@jest/globals';
import { until } from '#until';
import { KINDS, open, start } from './rows.js';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** A collection takes long while the machine is busy. */
const COLLECTION_MS = 30_000;

/** Node reports a collected stream some turns later. A collection costs as much as hundreds of turns, so not each has one. */
function untilCollected(isDone: () => Promise<boolean>): Promise<void> {
  let turns = 0;
  return until(() => {
    if (turns++ % 10 === 0) collect();
    return isDone();
  });
}

describe('a stream that nobody has any more', () => {
  it.each(KINDS)(
    'gives the lock back when the garbage collector finds a stream dropped unread: %s',
    async (kind) => {
      const { rows, isFree } = await start();
      await open(rows, kind);
      await untilCollected(() => isFree('rows'));
      expect(await isFree('rows')).toBe(true);
    },
    COLLECTION_MS,
  );

  it.each(['generator', 'promised', 'web'] as const)(
    'and closes one dropped half read: %s',
    async (kind) => {
      const { rows, isFree } = await start();
      await (await open(rows, kind)).next();
      await untilCollected(() => isFree('rows'));
      expect(rows.log).toEqual(['closed under the lock']);
    },
    COLLECTION_MS,
  );
});
