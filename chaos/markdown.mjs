import { readFileSync, writeFileSync } from 'node:fs';
import { KINDS } from './faults/index.mjs';
import { asMs, median } from './report.mjs';

const [START, END] = [
  '<!-- results: npm run chaos -- --all --markdown docs/faults.md -->',
  '<!-- end of results -->',
];
const HEAD = [
  'Fault',
  'Faults',
  'Sections',
  'Recovery: median, worst',
  'Told of a loss',
  'Overlaps',
  'Refused by token',
  'Findings',
];

/**
 * Writes the results into the page, between its two marks. Kinds that did not run keep their row.
 *
 * @param {string} file @param {readonly import('./index.d.mts').Verdict[]} verdicts
 */
export function writeTable(file, verdicts) {
  const text = readFileSync(file, 'utf8');
  const [before, rest] = text.split(START);
  const [table, after] = rest.split(END);
  const rows = new Map(
    table.split('\n').flatMap((line) => {
      const name = /^\| `([^`]+)`/.exec(line)?.[1];
      return name ? [[name, line]] : [];
    }),
  );
  for (const verdict of verdicts) rows.set(verdict.figures.kind, rowOf(verdict));
  const ordered = KINDS.flatMap(({ name }) => rows.get(name) ?? []);
  const lines = [`| ${HEAD.join(' | ')} |`, `|${' --- |'.repeat(HEAD.length)}`, ...ordered];
  writeFileSync(file, `${before}${START}\n\n${lines.join('\n')}\n\n${END}${after}`);
}

/** @param {import('./index.d.mts').Verdict} verdict */
function rowOf({ findings, figures }) {
  const { kind, faults, sections, recoveryMs, told, overlaps, refused } = figures;
  const says = KINDS.find(({ name }) => name === kind)?.says;
  const recovery = faults === 0 ? '–' : `${asMs(median(recoveryMs))}, ${asMs(Math.max(...recoveryMs))}`;
  const cells = [
    `\`${kind}\`: ${says}`,
    faults,
    sections,
    recovery,
    told,
    overlaps,
    refused,
    findings.length,
  ];
  return `| ${cells.join(' | ')} |`;
}
