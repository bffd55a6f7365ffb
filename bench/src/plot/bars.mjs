import { frame, round, text } from './frame.mjs';

const WIDTH = 760;
const LEFT = 230;
const RIGHT = 100;
const TOP = 66;
const ROW = 26;

/**
 * Horizontal bars, one for each contestant.
 *
 * @param {{ title: string, subtitle: string, scale?: 'linear' | 'log', show: (value: number) => string }} what
 * @param {readonly { name: string, kind: 'own' | 'other' | 'floor', value: number }[]} bars
 */
export function barChart({ title, subtitle, scale = 'linear', show }, bars) {
  const lengthOf = scale === 'log' ? logLength(bars) : linearLength(bars);
  const note = scale === 'log' ? `${subtitle} (logarithmic)` : subtitle;
  const rows = bars.flatMap(({ name, kind, value }, i) => {
    const y = TOP + i * ROW;
    const length = round(lengthOf(value) * (WIDTH - LEFT - RIGHT));
    return [
      text(LEFT - 10, y + 15, name, '', 'end'),
      `<rect class="${kind}" x="${LEFT}" y="${y}" width="${length}" height="${ROW - 6}" rx="2"/>`,
      text(LEFT + length + 8, y + 15, show(value)),
    ];
  });
  return frame({ title, subtitle: note, width: WIDTH, height: TOP + bars.length * ROW + 14 }, rows);
}

function linearLength(bars) {
  const longest = Math.max(...bars.map(({ value }) => value));
  return (value) => value / longest;
}

/** The axis begins at the decade below the smallest value. */
function logLength(bars) {
  const logs = bars.map(({ value }) => Math.log10(value));
  const from = Math.floor(Math.min(...logs) - 0.1);
  const to = Math.max(...logs);
  return (value) => Math.max(0.004, (Math.log10(value) - from) / (to - from));
}
