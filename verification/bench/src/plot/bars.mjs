import { frame, MARGIN, round, text, WIDTH, wrap } from './frame.mjs';

/** The width of a bar with its value beside it, the gap between both, and the width of a digit in a wide font. */
const ROOM = WIDTH - 2 * MARGIN;
const BESIDE = 8;
const DIGIT = 8.6;
const LONGEST = ROOM - 76;
const LINE = 18;
const BAR = 14;
const GAP = 10;

/**
 * Horizontal bars, one for each contestant, each below its name.
 *
 * @param {{ title: string, subtitle: string, scale?: 'linear' | 'log', show: (value: number) => string }} what
 * @param {readonly { name: string, kind: 'own' | 'other' | 'floor', value: number, label?: string }[]} bars a label replaces what `show` says
 */
export function barChart({ title, subtitle, scale = 'linear', show }, bars) {
  const lengthOf = scale === 'log' ? logLength(bars) : linearLength(bars);
  const longest = Math.min(
    LONGEST,
    ...bars.map(({ value, label = show(value) }) => (ROOM - BESIDE - label.length * DIGIT) / lengthOf(value)),
  );
  const note = scale === 'log' ? `${subtitle} (logarithmic)` : subtitle;
  const says = `${bars.map(({ name, value, label = show(value) }) => `${name}: ${label}`).join('; ')}.`;
  let y = 0;
  const rows = bars.flatMap(({ name, kind, value, label = show(value) }) => {
    const length = round(lengthOf(value) * longest);
    const names = wrap(name, 14).map((line) => text(MARGIN, (y += LINE) - 2, line));
    y += BAR + GAP;
    return [
      ...names,
      `<rect class="${kind}" x="${MARGIN}" y="${y - BAR - GAP + 4}" width="${length}" height="${BAR}" rx="2"/>`,
      text(MARGIN + length + BESIDE, y - GAP + 2, label),
    ];
  });
  return frame({ title, subtitle: note, says, height: y + GAP }, rows);
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
