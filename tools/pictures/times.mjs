// times.svg: which option bounds which time of a call and of a shutdown. Not to scale.
import { frame, MARGIN, text, WIDTH } from '../../verification/bench/src/plot/frame.mjs';
import { SHAPES } from './shapes.mjs';

/** Moments, as positions. */
const ASKS = MARGIN;
const GRANTED = 120;
const RENEWALS = [190, 260];
const RELEASED = 320;
const SIGTERM = 60;

/** A row with a line of text below its bar. */
const TALL = 76;

const STYLE = `${SHAPES}
  .gap { fill: #ffffff }
  @media (prefers-color-scheme: dark) { .gap { fill: #0d1117 } }`;

/**
 * @param {{ waitMs: number, watchdogTimeoutMs: number, shutdownGraceMs: number, commandTimeoutMs: number }} defaults
 * @returns {string}
 */
export function drawTimes({ waitMs, watchdogTimeoutMs, shutdownGraceMs, commandTimeoutMs }) {
  const lease = seconds(watchdogTimeoutMs);
  const call = [
    row(
      'the call',
      'withLock, @Locked',
      [
        bar('other', ASKS, GRANTED),
        bar('own', GRANTED, RELEASED),
        text((ASKS + GRANTED) / 2, 34, 'waits', '', 'middle'),
        text((GRANTED + RELEASED) / 2, 34, 'works', 'on', 'middle'),
        text(ASKS, 56, 'asks', 'quiet'),
        text(GRANTED, 56, 'granted', 'quiet', 'middle'),
        text(RELEASED, 56, 'released', 'quiet', 'middle'),
      ],
      TALL,
    ),
    row('waitMs', `longest wait, ${seconds(waitMs)}`, [
      bar('d1', ASKS, GRANTED + 60),
      text(GRANTED + 68, 33, 'then LockWaitTimeoutError', 'quiet'),
    ]),
    row(
      'watchdogTimeoutMs',
      `the lease: ${lease}, renewed`,
      [
        bar('d2', GRANTED, RELEASED),
        ...RENEWALS.map((x) => `<rect class="gap" x="${x}" y="18" width="5" height="22"/>`),
        text(GRANTED, 56, `after a crash: the key stays taken for ≤ ${lease}`, 'quiet'),
      ],
      TALL,
    ),
    row('leaseMs', 'a lease that nothing renews', [
      bar('d3', GRANTED, RENEWALS[1]),
      text(RENEWALS[1] + 8, 33, 'over: the lock is lost', 'quiet'),
    ]),
    row('holdAtLeastMs', 'taken although released', [
      bar('d0', GRANTED, 380),
      text(388, 33, 'free', 'quiet'),
    ]),
    row('commandTimeoutMs', `one request, ${seconds(commandTimeoutMs)} on Redis`, [
      ...[ASKS, ...RENEWALS, RELEASED].map((x) => bar('floor', x, x + 12)),
      text(RELEASED + 20, 33, 'each of these', 'quiet'),
    ]),
  ];
  const shutdown = [
    row(
      'shutdownGraceMs',
      `holders may finish, ${seconds(shutdownGraceMs)}`,
      [
        bar('d1', SIGTERM, 220),
        text(228, 33, 'then their locks are taken', 'quiet'),
        text(SIGTERM, 56, 'SIGTERM', 'quiet'),
      ],
      TALL,
    ),
    row('the platform', 'terminationGracePeriodSeconds', [
      bar('other', SIGTERM, 300),
      text(308, 33, 'SIGKILL: a crash', 'quiet'),
    ]),
  ];
  const [calls, below] = stack(call, 0);
  const [shutdowns, bottom] = stack(shutdown, below + 34);
  return frame(
    {
      title: 'Which time is which',
      subtitle: 'Defaults in seconds. Not to scale.',
      says: `A call waits for waitMs at most, then works. While it works, its lease of watchdogTimeoutMs (${lease}) is renewed. A lease of leaseMs is not renewed and ends. holdAtLeastMs keeps the key taken after the release. commandTimeoutMs bounds each request. At a shutdown holders have shutdownGraceMs to finish, then the platform ends the process.`,
      height: bottom,
      style: STYLE,
    },
    [...calls, text(MARGIN, below + 16, 'A shutdown', 'title'), ...shutdowns],
  );
}

const seconds = (ms) => `${ms / 1000} s`;

/** A name, its meaning, and below them its bar. */
const row = (name, meaning, drawn, height = 54) => ({
  height,
  drawn: [text(MARGIN, 12, name, 'strong'), text(WIDTH - MARGIN, 12, meaning, 'quiet', 'end'), ...drawn],
});

/** @param {ReturnType<typeof row>[]} rows @returns {[string[], number]} the rows one below the other, and where they end */
function stack(rows, top) {
  let y = top;
  const drawn = rows.flatMap((each) => {
    const group = [`<g transform="translate(0 ${y})">`, ...each.drawn, '</g>'];
    y += each.height;
    return group;
  });
  return [drawn, y];
}

const bar = (className, from, to) =>
  `<rect class="${className}" x="${from}" y="20" width="${to - from}" height="18" rx="3"/>`;
