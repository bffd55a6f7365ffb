import { barChart } from '../plot/bars.mjs';
import { lineChart } from '../plot/lines.mjs';
import { ms } from './format.mjs';

/**
 * @param {{ scenario: any, rows: import('../run-scenario.mjs').Row[] }[]} results
 * @returns {Map<string, string>} SVG by the id of a scenario; those of growth share one, `scaling`
 */
export function pictures(results) {
  const drawn = new Map();
  for (const { scenario, rows } of results) {
    const run = rows.filter(({ figures }) => figures && scenario.plot?.of(figures) > 0);
    if (run.length > 0) drawn.set(scenario.id, bars(scenario, run));
  }
  const series = results.filter(({ scenario }) => scenario.lines).map(growthOf);
  if (series.length > 0) drawn.set('scaling', lineChart(SCALING, series));
  return drawn;
}

/**
 * The picture of the short page, with a linear axis. A bar of a library that refused callers, or left some waiting, says so.
 *
 * @param {{ scenario: any, rows: import('../run-scenario.mjs').Row[] }[]} results @returns {string | undefined} SVG
 */
export function hotWaits(results) {
  const rows = results.find(({ scenario }) => scenario.id === 'hot4')?.rows ?? [];
  const bars = rows.flatMap(({ id, name, figures }) =>
    figures ? [{ name, kind: kindOf(id), value: figures.p99Ms, label: waited(figures) }] : [],
  );
  return bars.length === 0 ? undefined : barChart(HOT_WAITS, bars);
}

const HOT_WAITS = {
  title: 'How long callers wait for a key that all ask for',
  subtitle:
    'Longest wait of 99 in 100; 4 processes × 25 callers, nothing to do under the lock. Shorter is better.',
  show: ms,
};

/** A caller that still waits at the end is counted with its wait so far. */
const waited = ({ p99Ms, maxMs, failures, unfinished }) =>
  [
    `${unfinished > 0 && p99Ms > 0.95 * maxMs ? '≥ ' : ''}${ms(p99Ms)}`,
    ...(failures > 0 ? [`refused ${failures}`] : []),
    ...(unfinished > 0 ? [`${unfinished} still waiting`] : []),
  ].join(', ');

const SCALING = {
  title: 'What one costs as they become more',
  subtitle: 'µs of CPU, Redis and Node together; flat or falling is linear growth of the whole or better',
};

function bars({ title, plot: { of, show, scale, title: subtitle } }, rows) {
  const entries = rows.map(({ id, name, figures }) => ({ name, kind: kindOf(id), value: of(figures) }));
  return barChart({ title, subtitle, show, scale }, entries);
}

/** @param {string} id */
const kindOf = (id) => (id.startsWith('ours') ? 'own' : id === 'floor' ? 'floor' : 'other');

/** The id contains the size: ours-1000. */
function growthOf({ scenario, rows }) {
  const points = rows
    .filter(({ id, figures }) => id.startsWith('ours-') && figures?.us > 0)
    .map(({ id, figures }) => [Number(id.slice('ours-'.length)), figures.us]);
  return { name: scenario.lines, points };
}
