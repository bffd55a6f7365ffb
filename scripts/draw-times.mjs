// Draws docs/images/times.svg: which option bounds which time of a call and of a shutdown. Not to scale.
// `npm run docs:times` writes it, and a test compares it with the code's defaults.
import { readFileSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { frame, text } from '../bench/src/plot/frame.mjs';

const IMAGE = new URL('../docs/images/times.svg', import.meta.url);
const OPTIONS = new URL('../libs/distributed-lock/src/lock/request/lock-options.ts', import.meta.url);
const REDIS = new URL('../libs/distributed-lock/src/stores/redis/redis.options.ts', import.meta.url);

const WIDTH = 760;
const LEFT = 236;
const ROW = 46;
const TOP = 100;

/** Moments, as positions. */
const ASKS = LEFT;
const GRANTED = 330;
const RELEASED = 600;
const RENEWALS = [420, 510];

/**
 * @param {{ waitMs: number, watchdogTimeoutMs: number, shutdownGraceMs: number, commandTimeoutMs: number }} defaults
 * @returns {string}
 */
export function drawTimes({ waitMs, watchdogTimeoutMs, shutdownGraceMs, commandTimeoutMs }) {
  const lease = seconds(watchdogTimeoutMs);
  const rows = [
    row('the call', 'withLock, @Locked', (y) => [
      bar('other', y, ASKS, GRANTED, 'waits'),
      bar('own', y, GRANTED, RELEASED, 'works'),
    ]),
    row('waitMs', `longest wait, ${seconds(waitMs)}`, (y) => [
      bar('d1', y, ASKS, GRANTED + 60),
      text(GRANTED + 66, y + 13, 'then the call fails with LockWaitTimeoutError', 'quiet'),
    ]),
    row('watchdogTimeoutMs', `the lease: ${lease}, renewed`, (y) => [
      bar('d2', y, GRANTED, RELEASED),
      ...RENEWALS.map((x) => `<rect class="ground" x="${x}" y="${y - 3}" width="5" height="24" rx="2"/>`),
      text(RELEASED + 8, y + 6, 'after a crash: the key', 'quiet'),
      text(RELEASED + 8, y + 20, `stays taken for ≤ ${lease}`, 'quiet'),
    ]),
    row('leaseMs', 'a lease that nothing renews', (y) => [
      bar('d3', y, GRANTED, RENEWALS[1]),
      text(RENEWALS[1] + 8, y + 13, 'over: the lock is lost', 'quiet'),
    ]),
    row('holdAtLeastMs', 'taken although released', (y) => [
      bar('d0', y, GRANTED, 680),
      text(686, y + 13, 'free', 'quiet'),
    ]),
    row('commandTimeoutMs', `one request, ${seconds(commandTimeoutMs)} on Redis`, (y) => [
      ...[ASKS, ...RENEWALS, RELEASED].map((x) => bar('floor', y, x, x + 14)),
      text(RELEASED + 20, y + 13, 'each of these', 'quiet'),
    ]),
  ];
  const below = TOP + rows.length * ROW + 50;
  const shutdown = [
    row('shutdownGraceMs', `holders may finish, ${seconds(shutdownGraceMs)}`, (y) => [
      bar('d1', y, 300, 520),
      text(526, y + 13, 'then their locks are taken', 'quiet'),
    ]),
    row('the platform', 'terminationGracePeriodSeconds', (y) => [
      bar('other', y, 300, 640),
      text(646, y + 13, 'SIGKILL: a crash', 'quiet'),
    ]),
  ];
  const place = (drawn, top) => drawn.flatMap((draw, i) => draw(top + i * ROW));
  const bottom = below + shutdown.length * ROW;
  return frame(
    {
      title: 'Which time is which',
      subtitle: 'Defaults in seconds. Not to scale.',
      width: WIDTH,
      height: bottom + 8,
    },
    [
      ...moments(
        [
          [ASKS, 'asks'],
          [GRANTED, 'granted'],
          [RELEASED, 'released'],
        ],
        TOP - 22,
        TOP + rows.length * ROW - 12,
      ),
      ...place(rows, TOP),
      text(20, below - 26, 'A shutdown', 'title'),
      ...moments([[300, 'SIGTERM']], below - 22, bottom - 12),
      ...place(shutdown, below),
    ],
  );
}

const seconds = (ms) => `${ms / 1000} s`;

const row = (name, meaning, draw) => (y) => [
  text(20, y + 6, name),
  text(20, y + 22, meaning, 'quiet'),
  ...draw(y),
];

function bar(className, y, from, to, label = '') {
  const box = `<rect class="${className}" x="${from}" y="${y}" width="${to - from}" height="18" rx="3"/>`;
  return label ? `${box}\n${text((from + to) / 2, y - 4, label, 'quiet', 'middle')}` : box;
}

const moments = (all, top, bottom) =>
  all.flatMap(([x, name]) => [
    `<line class="grid" x1="${x}" y1="${top + 4}" x2="${x}" y2="${bottom}" stroke-dasharray="4 4"/>`,
    text(x, top, name, 'quiet', 'middle'),
  ]);

/** The defaults in the sources, where they are written as `waitMs = 10_000`. */
export function defaultsInCode() {
  const sources = `${readFileSync(OPTIONS, 'utf8')}${readFileSync(REDIS, 'utf8')}`;
  const read = (name) => {
    const [, digits] = new RegExp(`\\b${name} = ([\\d_]+)`).exec(sources) ?? [];
    if (digits === undefined) throw new Error(`No default of ${name} was found in the sources.`);
    return Number(digits.replaceAll('_', ''));
  };
  return {
    waitMs: read('waitMs'),
    watchdogTimeoutMs: read('watchdogTimeoutMs'),
    shutdownGraceMs: read('shutdownGraceMs'),
    commandTimeoutMs: read('DEFAULT_COMMAND_TIMEOUT_MS'),
  };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  writeFileSync(IMAGE, drawTimes(defaultsInCode()));
}
