// hand-off.svg: how a lock travels to the next caller and to the next process, beside a library that polls.
import { frame, MARGIN, text } from '../../verification/bench/src/plot/frame.mjs';
import { arrow, box, SHAPES } from './shapes.mjs';

/** Three lanes, in which time runs downwards. */
const LANES = [70, 230, 390];
const [LEFT, MIDDLE, RIGHT] = LANES;
const HALF = 5;
/** The left and the right edge of a step in the middle lane. */
const EDGES = [MIDDLE - 57, MIDDLE + 57];

/** @param {{ recheckMs: number }} figures @returns {string} */
export function drawHandOff({ recheckMs }) {
  const recheck = `${recheckMs / 1000} s`;
  return frame(
    {
      title: 'How a hand-off travels',
      subtitle: 'Time runs downwards. Blue: this one has the lock.',
      says: `Local hand-off: caller 1 of a process passes the lock to caller 2 of the same process, with the next fencing token and without a request. Remote hand-off: process A sends release.lua, which grants the lock to process B, the next owner in the queue, and notifies it. B works at once and confirms the grant by a renewal. If the notification is lost, B rechecks within ${recheck}. A library that polls: process A deletes the key, and the key is free until process B asks again.`,
      height: 660,
      style: SHAPES,
    },
    [...panel(0, local()), ...panel(168, remote(recheck)), ...panel(424, polling())],
  );
}

const panel = (y, body) => [`<g transform="translate(0 ${y})">`, ...body, '</g>'];

function local() {
  return [
    text(MARGIN, 14, 'Local: to the next caller of the process', 'strong'),
    ...lanes(['caller 1', 'caller 2', 'Redis'], [142, 142, 50]),
    ...holds(LEFT, 54, 94, 'works', 'end'),
    ...waits(MIDDLE, 54, 94, 'waits'),
    ...message(94, LEFT, MIDDLE, 'next token'),
    ...holds(MIDDLE, 94, 138, 'works'),
    text(RIGHT, 72, 'no request', 'quiet', 'middle'),
  ];
}

function remote(recheck) {
  return [
    text(MARGIN, 14, 'Remote: the release grants the lock', 'strong'),
    ...lanes(['process A', 'Redis', 'process B'], [190, 190, 190]),
    ...holds(LEFT, 54, 92, 'works', 'end'),
    ...waits(RIGHT, 54, 124, 'waits'),
    ...message(92, LEFT, EDGES[0], 'release.lua'),
    ...step(80, 56, 'box', ['grants to B,', 'next in queue']),
    ...message(124, EDGES[1], RIGHT, 'granted'),
    ...holds(RIGHT, 124, 186, 'works'),
    ...message(168, RIGHT, MIDDLE, 'renewal confirms', 'path dash'),
    text(MARGIN, 212, 'A notification ends the wait, not a poll.', 'quiet'),
    text(MARGIN, 231, `B misses “granted”? It rechecks within ${recheck}.`, 'quiet'),
  ];
}

function polling() {
  return [
    text(MARGIN, 14, 'For comparison: a library that polls', 'strong'),
    ...lanes(['process A', 'Redis', 'process B'], [228, 228, 228]),
    ...holds(LEFT, 54, 104, 'works', 'end'),
    ...waits(RIGHT, 54, 192, 'sleeps'),
    ...message(76, RIGHT, MIDDLE, 'asks: taken', 'path dash'),
    ...message(104, LEFT, EDGES[0], 'delete'),
    ...step(92, 78, 'box bad dash', ['the key is free,', 'nobody works']),
    ...message(160, RIGHT, EDGES[1], 'asks again'),
    ...message(192, MIDDLE, RIGHT, 'granted'),
    ...holds(RIGHT, 192, 224, 'works'),
  ];
}

const step = (y, height, className, lines) =>
  box({ x: EDGES[0], y, width: EDGES[1] - EDGES[0], height, className }, lines);

const lanes = (names, bottoms) =>
  names.flatMap((name, i) => [
    `<line class="grid" x1="${LANES[i]}" y1="50" x2="${LANES[i]}" y2="${bottoms[i]}"/>`,
    ...box({ x: LANES[i] - 48, y: 24, width: 96, height: 26 }, [name]),
  ]);

const holds = (lane, from, to, label, anchor = 'start') => stretch('own', lane, from, to, label, anchor);

const waits = (lane, from, to, label) => stretch('other', lane, from, to, label, 'start');

function stretch(className, lane, from, to, label, anchor) {
  const side = anchor === 'end' ? -1 : 1;
  return [
    `<rect class="${className}" x="${lane - HALF}" y="${from}" width="${2 * HALF}" height="${to - from}" rx="2"/>`,
    text(lane + side * (HALF + 6), (from + to) / 2 + 5, label, 'quiet', anchor),
  ];
}

/** An arrow between two lanes, or between a lane and the edge of a step. */
function message(y, from, to, label, className) {
  const side = Math.sign(to - from);
  const inset = (x) => (LANES.includes(x) ? HALF : 0);
  const ends = [from + side * inset(from), to - side * inset(to)];
  return [
    ...arrow(
      ends.map((x) => [x, y]),
      className,
    ),
    text((ends[0] + ends[1]) / 2, y - 6, label, '', 'middle'),
  ];
}
