// hot-key.svg: what a hot key costs here and with libraries that poll, as the benchmark's page says.
import { readFileSync } from 'node:fs';
import { frame, MARGIN, round, text, WIDTH } from '../../verification/bench/src/plot/frame.mjs';
import { numberOf, readTable } from '../../verification/bench/src/report/read-table.mjs';
import { SHAPES } from './shapes.mjs';

/** The page with the tables of Redis. */
const PAGE = new URL('../../verification/bench/results/redis.md', import.meta.url);
const SCENARIO = 'hot4-1ms';
const OURS = 'ours, withLock';
/** Their waiters poll, and are told nothing. */
const POLLING = ['redis-semaphore', 'redlock v5', '@sesamecare-oss/redlock', 'murlock', '@verrou/core'];
const SHOWN = 3;

const STYLE = `
  .rest { fill: #e6eaef }
  .mark { stroke-width: 1.4; stroke: #d8dee4 } .mark.own { stroke: #0969da } .mark.other { stroke: #6e7781 }
  @media (prefers-color-scheme: dark) {
    .rest { fill: #212830 }
    .mark { stroke: #2a313c } .mark.own { stroke: #4493f8 } .mark.other { stroke: #9198a1 }
  }`;

const CALLERS = 100;
const VALUES = 78;
/** The width of a letter in a wide font. */
const LETTER = 7.8;
const ROW = 22;

/** @param {ReturnType<typeof hotKeyOnThePage>} rows ours first @returns {string} */
export function drawHotKey(rows) {
  const panels = [
    { title: 'Of all the time, the lock is in use', of: (row) => row['lock in use'], draw: timeLine },
    { title: 'Callers that share it, of 100 (fairness)', of: (row) => String(sharing(row)), draw: callers },
    { title: '1 wait in 100 takes at least', of: (row) => row['p99 wait'] },
    { title: 'Requests to Redis for each lock', of: (row) => row.commands },
  ];
  const bars = MARGIN + 8 + Math.ceil(Math.max(...rows.map(({ name }) => name.length)) * LETTER);
  const place = { x: bars, width: WIDTH - MARGIN - VALUES - bars };
  const height = rows.length * ROW + 42;
  return frame(
    {
      title: 'Where time goes on a hot key',
      subtitle: '4 processes × 25 callers, one key, 1 ms of work',
      says: rows
        .map((row) => `${row.name}: ${panels.map(({ title, of }) => `${title}: ${of(row)}`).join('; ')}.`)
        .join(' '),
      height: panels.length * height - 4,
      style: SHAPES + STYLE,
    },
    panels.flatMap((panel, i) => [
      `<g transform="translate(0 ${i * height})">`,
      text(MARGIN, 14, panel.title, 'strong'),
      ...rows.flatMap((row, at) => line(panel, row, rows, { ...place, y: 22 + at * ROW })),
      '</g>',
    ]),
  );
}

function line({ of, draw = bar }, row, rows, place) {
  const most = Math.max(...rows.map((each) => numberOf(of(each))));
  return [
    text(MARGIN, place.y + 14, row.name, row.isOurs ? '' : 'quiet'),
    ...draw({ ...place, y: place.y + 4 }, row.isOurs ? 'own' : 'other', numberOf(of(row)), most),
    text(place.x + place.width + 8, place.y + 14, of(row)),
  ];
}

function bar({ x, y, width }, className, value, most) {
  const length = round(Math.max(1, (value / most) * width));
  return [`<rect class="${className}" x="${x}" y="${y}" width="${length}" height="12" rx="2"/>`];
}

/** All the time, with the part in which the lock is in use. */
const timeLine = (place, className, percent) => [
  ...bar(place, 'rest', 100, 100),
  ...bar(place, className, percent, 100),
];

/** A mark for each caller: one path for those that share the lock, and one for the others. */
function callers({ x, y, width }, className, sharing) {
  const mark = (i) => `M${round(x + ((i + 0.5) * width) / CALLERS)} ${y}v12`;
  const marks = Array.from({ length: CALLERS }, (_, i) => mark(i));
  return [
    `<path class="mark ${className}" d="${marks.slice(0, sharing).join('')}"/>`,
    `<path class="mark rest" d="${marks.slice(sharing).join('')}"/>`,
  ];
}

/** Jain's index is k/n where k of n callers share the lock alike and the others get nothing. */
const sharing = (row) => Math.round(Number(row.fairness) * CALLERS);

/** The rows of the scenario: ours, and those that poll, refused nobody and have the lock in use most. */
export function hotKeyOnThePage(page = readFileSync(PAGE, 'utf8')) {
  const all = readTable(page, SCENARIO).map((row) => ({
    ...row,
    name: row.name === OURS ? row.name : row.name.replace(/ v?[\d.]+\S*$/, ''),
    full: row.name,
    isOurs: row.name === OURS,
  }));
  const ours = all.filter(({ isOurs }) => isOurs);
  const polling = all
    .filter(({ full, failed }) => failed === '0' && POLLING.some((name) => full.startsWith(name)))
    .sort((a, b) => numberOf(b['lock in use']) - numberOf(a['lock in use']));
  if (ours.length !== 1 || polling.length < SHOWN)
    throw new Error(`The benchmark's page lacks rows of ${SCENARIO}.`);
  return [...ours, ...polling.slice(0, SHOWN)];
}
