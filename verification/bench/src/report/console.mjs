import { digits } from './targets.mjs';

/** @param {{ scenario: any, rows: import('../run-scenario.mjs').Row[] }} result */
export function printResult({ scenario, rows }) {
  const lines = [
    ['', ...scenario.columns.map(({ title }) => title)],
    ...rows
      .filter(({ figures }) => figures)
      .map(({ name, figures }) => [name, ...scenario.columns.map(({ of }) => of(figures))]),
  ];
  const widths = lines[0].map((_, i) => Math.max(...lines.map((line) => line[i].length)));
  console.log(`\n${scenario.id}: ${scenario.title}`);
  for (const [name, ...cells] of lines) {
    const padded = cells.map((cell, i) => cell.padStart(widths[i + 1]));
    console.log(`  ${[name.padEnd(widths[0]), ...padded].join('  ')}`);
  }
  for (const { name, skipped } of rows) if (skipped) console.log(`  ${name}: ${skipped}`);
}

/** @param {{ scenario: any, verdicts: import('./targets.mjs').Verdict[] }[]} results */
export function printVerdicts(results) {
  console.log('\nFigures to reach');
  for (const { scenario, verdicts } of results) {
    for (const { claim, value, limit, outcome } of verdicts) {
      const sign = outcome === 'not reached' ? 'NOT REACHED' : outcome.padEnd(11);
      console.log(`  ${sign}  ${scenario.id}: ${claim}: ${digits(value)}${limit && ` (${limit})`}`);
    }
  }
}
