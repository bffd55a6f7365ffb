import { frame, round, text } from './frame.mjs';

const PLOT = { left: 64, right: 272, top: 16, bottom: 330 };

const STYLE = `
  .name { font-size: 13px }
  .leader { fill: none; stroke-dasharray: 2 3 }`;

/**
 * Lines over logarithmic axes, named at their ends.
 *
 * @param {{ title: string, subtitle: string }} what
 * @param {readonly { name: string, points: readonly (readonly [number, number])[] }[]} series all values above 0
 */
export function lineChart({ title, subtitle }, series) {
  const x = axis(
    series.flatMap(({ points }) => points.map(([at]) => at)),
    PLOT.left,
    PLOT.right,
  );
  const y = axis(
    series.flatMap(({ points }) => points.map(([, value]) => value)),
    PLOT.bottom,
    PLOT.top,
  );
  const places = labelPlaces(series.map(({ points }) => y.of(points.at(-1)[1])));
  const body = [
    ...y.decades.flatMap((value) => [
      `<line class="grid" x1="${PLOT.left}" y1="${y.of(value)}" x2="${PLOT.right}" y2="${y.of(value)}"/>`,
      text(PLOT.left - 8, y.of(value) + 4, label(value), 'quiet', 'end'),
    ]),
    ...x.decades.map((value) => text(x.of(value), PLOT.bottom + 20, label(value), 'quiet', 'middle')),
    ...series.flatMap(({ name, points }, i) => [
      `<polyline class="line s${i}" points="${points.map(([at, value]) => `${x.of(at)},${y.of(value)}`).join(' ')}"/>`,
      ...points.map(([at, value]) => `<circle class="d${i}" cx="${x.of(at)}" cy="${y.of(value)}" r="3.5"/>`),
      leader(x.of(points.at(-1)[0]), y.of(points.at(-1)[1]), places[i], i),
      text(PLOT.right + 14, places[i] + 4, name, `name d${i}`),
    ]),
    text((PLOT.left + PLOT.right) / 2, PLOT.bottom + 40, 'how many', 'quiet', 'middle'),
  ];
  return frame({ title, subtitle, says: inWords(series), height: PLOT.bottom + 54, style: STYLE }, body);
}

const inWords = (series) =>
  series
    .map(
      ({ name, points }) =>
        `${name}: ${points.map(([at, value]) => `${label(at)} → ${round(value)}`).join(', ')}.`,
    )
    .join(' ');

/** @param {readonly number[]} values @param {number} start @param {number} end */
function axis(values, start, end) {
  const from = Math.floor(Math.log10(Math.min(...values)));
  const to = Math.max(from + 1, Math.ceil(Math.log10(Math.max(...values))));
  return {
    decades: Array.from({ length: to - from + 1 }, (_, i) => 10 ** (from + i)),
    of: (value) => round(start + ((Math.log10(value) - from) / (to - from)) * (end - start)),
  };
}

/** From the end of a line to its name. */
const leader = (x, y, place, i) =>
  `<polyline class="leader s${i}" points="${x},${y} ${PLOT.right},${place} ${PLOT.right + 9},${place}"/>`;

/** Names of lines that end close together must not lie on each other. @param {readonly number[]} wanted */
function labelPlaces(wanted) {
  const places = [...wanted];
  let last = -Infinity;
  for (const i of wanted.map((_, i) => i).sort((a, b) => wanted[a] - wanted[b])) {
    places[i] = last = Math.max(wanted[i], last + 17);
  }
  return places;
}

/** @param {number} value */
const label = (value) =>
  value >= 1 ? value.toLocaleString('en').replaceAll(',', ' ') : String(Number(value.toPrecision(1)));
