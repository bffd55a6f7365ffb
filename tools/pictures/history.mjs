// history.svg: one history of the simulation, a lane for each process. Its plan is a-history.plan.json, and what it became is
// a-history.json: npm run --silent simulate -- --json --plan tools/pictures/a-history.plan.json > tools/pictures/a-history.json
import { readFileSync } from 'node:fs';
import { frame, MARGIN, round, text } from '../../verification/bench/src/plot/frame.mjs';
import { SHAPES } from './shapes.mjs';

const LANE = 62;
const BAR = 16;
const [LEFT, RIGHT] = [56, 440];
const STEP_MS = 500;

/** @typedef {import('../../dist/simulation/test/simulation/data.js').HistoryData} HistoryData */

/** @returns {HistoryData} */
export const historyAsRecorded = () =>
  JSON.parse(readFileSync(new URL('a-history.json', import.meta.url), 'utf8'));

/** @param {HistoryData} history @returns {string} */
export function drawHistory(history) {
  const names = [...new Set(history.calls.map(({ process }) => process))].toSorted((one, other) =>
    one.localeCompare(other),
  );
  const lastMs = Math.max(...history.holds.map(({ endedAt }) => endedAt));
  const endMs = Math.ceil(lastMs / STEP_MS) * STEP_MS;
  const xOf = (/** @type {number} */ ms) => LEFT + (ms / endMs) * (RIGHT - LEFT);
  const bottom = names.length * LANE;
  return frame(
    {
      title: 'One history of the simulation',
      subtitle: 'Three processes, one key, virtual time',
      says: `${inWords(history)} At no moment do two processes believe in the lock.`,
      height: bottom + 86,
      style: SHAPES,
    },
    [
      ...axis(endMs, bottom, xOf),
      ...names.flatMap((name, i) => lane(history, name, i * LANE, xOf)),
      ...legend(bottom + 46),
    ],
  );
}

function axis(endMs, bottom, xOf) {
  const seconds = Array.from({ length: Math.floor(endMs / 1000) + 1 }, (_, i) => i);
  return seconds.flatMap((s) => {
    const x = round(xOf(s * 1000));
    return [
      `<line class="grid" x1="${x}" y1="4" x2="${x}" y2="${bottom}"/>`,
      text(x, bottom + 18, `${s} s`, 'quiet', 'middle'),
    ];
  });
}

function lane(history, name, y, xOf) {
  const of = (records) => records.filter(({ process }) => process === name);
  const bar = (className, from, to) =>
    `<rect class="${className}" x="${round(xOf(from))}" y="${y + 28}" width="${round(xOf(to) - xOf(from))}" height="${BAR}" rx="2"/>`;
  return [
    text(MARGIN, y + 41, name, 'strong'),
    ...of(history.calls).map(({ askedAt, settledAt }) => bar('other', askedAt, settledAt)),
    ...of(history.holds).map(({ from, endedAt }) => bar('box', from, endedAt)),
    ...of(history.holds).flatMap(({ beliefs }) =>
      beliefs.filter(isVisible).map(({ from, to }) => bar('own', from, to)),
    ),
    ...of(history.pauses).map(({ span }) => bar('box bad dash', span.from, span.to)),
    ...history.faults
      .filter((fault) => fault.text.includes(` ${name}`))
      .flatMap(({ at, text: said }) => mark(xOf(at), y, said)),
  ];
}

/** @param {{ from: number, to: number }} span */
const isVisible = ({ from, to }) => to - from > 1;

/** A fault: a cross, and its words above. */
function mark(x, y, said) {
  const words = said.replace('fault: ', '').replace(/ (of )?P\d/, '');
  const isLate = x > (LEFT + RIGHT) / 2;
  return [
    `<path class="path bad" d="M${round(x - 5)} ${y + 31}l10 10m0 -10l-10 10"/>`,
    text(x, y + 20, words, 'quiet', isLate ? 'end' : 'start'),
  ];
}

function legend(y) {
  const item = (x, row, className, says) => [
    `<rect class="${className}" x="${x}" y="${y + row * 22 - 11}" width="18" height="12" rx="2"/>`,
    text(x + 26, y + row * 22, says, 'quiet'),
  ];
  return [
    ...item(MARGIN, 0, 'other', 'waits for the lock'),
    ...item(MARGIN, 1, 'own', 'believes in its lock'),
    ...item(230, 0, 'box bad dash', 'stopped: does nothing'),
    `<path class="path bad" d="M234 ${y + 12}l10 10m0 -10l-10 10"/>`,
    text(256, y + 22, 'a fault', 'quiet'),
  ];
}

function inWords({ calls, holds, faults }) {
  const told = [
    ...calls.map(({ askedAt, process }) => ({ at: askedAt, text: `${process} asks` })),
    ...holds.flatMap(({ from, endedAt, process, end }) => [
      { at: from, text: `${process} has the lock` },
      {
        at: endedAt,
        text: end === 'lost' ? `${process} learns that it lost the lock` : `${process} releases`,
      },
    ]),
    ...faults.map(({ at, text: said }) => ({ at, text: said.replace('fault: ', '') })),
  ];
  return told
    .toSorted((a, b) => a.at - b.at)
    .map(({ at, text: said }) => `${Math.round(at)} ms: ${said}.`)
    .join(' ');
}
