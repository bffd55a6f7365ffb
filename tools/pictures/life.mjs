// life-of-a-lock.svg: from the request to the release or the loss, in the words of docs/glossary.md.
import { frame, text } from '../../verification/bench/src/plot/frame.mjs';
import { arrow, box, SHAPES } from './shapes.mjs';

/** Two columns: the way of most calls, and what happens instead. */
const MAIN = { x: 28, width: 208 };
const SIDE = { x: 262, width: 178 };
const mid = ({ x, width }) => x + width / 2;
const right = ({ x, width }) => x + width;

/** @param {{ recheckMs: number, renewalsPerLease: number }} figures @returns {string} */
export function drawLife({ recheckMs, renewalsPerLease }) {
  const recheck = `${recheckMs / 1000} s`;
  const part = ['', '', 'half', 'third', 'fourth'][renewalsPerLease];
  return frame(
    {
      title: 'The life of a lock',
      subtitle: 'One call of withLock or of a method with @Locked',
      says: `The caller joins the local queue of its process. If waitMs is over before a grant, the call fails with LockWaitTimeoutError. One owner asks the store for all callers of the process, by acquire.lua. If the key is free, the lock is granted. If another owner has it, this owner is queued in the store with a ticket and rechecks within ${recheck}. While the lock is held, the work runs and the watchdog renews the lease. When the work settles, the hold is released: by a local hand-off to the next caller of the process, or by release.lua, the remote hand-off to the next owner in the queue. If the lock is lost, lock.signal aborts at once.`,
      height: 594,
      style: SHAPES,
    },
    [
      ...box({ ...MAIN, y: 0, height: 46 }, ['caller', "withLock('goods:42', …)"]),
      ...down(MAIN, 46, 74),
      ...box({ ...MAIN, y: 74, height: 64 }, ['local queue', 'callers of this process', 'wait in order']),
      ...across(106),
      ...box({ ...SIDE, y: 80, height: 52, className: 'box bad' }, [
        'waitMs is over',
        'LockWaitTimeoutError',
      ]),
      ...down(MAIN, 138, 166),
      ...box({ ...MAIN, y: 166, height: 64 }, [
        'acquire request',
        'acquire.lua: the owner',
        'asks for all of them',
      ]),
      ...across(198),
      ...box({ ...SIDE, y: 166, height: 64 }, [
        'queued in the store',
        'another holds the key',
        `recheck within ${recheck}`,
      ]),
      ...down(MAIN, 230, 274, 'free: granted'),
      ...down(SIDE, 230, 274, 'granted'),
      ...box({ x: MAIN.x, width: right(SIDE) - MAIN.x, y: 274, height: 72, className: 'own', on: 'on' }, [
        'held',
        'the work runs, with a fencing token',
        `the watchdog renews every ${part} of the lease`,
      ]),
      ...down(MAIN, 346, 390, 'work settles'),
      ...down(SIDE, 346, 390, 'lease ends'),
      ...box({ ...MAIN, y: 390, height: 64 }, ['released', 'who is next?']),
      ...box({ ...SIDE, y: 390, height: 64, className: 'box bad' }, [
        'lost',
        'lock.signal aborts',
        'at once',
      ]),
      ...down(MAIN, 454, 512, 'a caller waits here'),
      ...arrow([
        [mid(MAIN), 472],
        [mid(SIDE), 472],
        [mid(SIDE), 512],
      ]),
      text(mid(SIDE) + 8, 494, 'otherwise', 'quiet'),
      ...box({ ...MAIN, y: 512, height: 64 }, [
        'local hand-off',
        'the next caller here,',
        'without a request',
      ]),
      ...box({ ...SIDE, y: 512, height: 64 }, ['remote hand-off', 'release.lua grants', 'to the next owner']),
      ...arrow([
        [MAIN.x, 544],
        [LOOP, 544],
        [LOOP, 310],
        [MAIN.x, 310],
      ]),
    ],
  );
}

/** Where the way back from a local hand-off runs. */
const LOOP = 14;

const across = (y) => arrow([right(MAIN), SIDE.x].map((x) => [x, y]));

function down(column, from, to, label = '') {
  const line = arrow([from, to].map((y) => [mid(column), y]));
  return label ? [...line, text(mid(column) + 8, to - 18, label, 'quiet')] : line;
}
