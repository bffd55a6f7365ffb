import { readFileSync, writeFileSync } from 'node:fs';
import { kindsOf } from './faults/index.mjs';
import { asMs, median } from './report.mjs';

const startOf = (store) =>
  `<!-- results: npm run chaos -- ${store === 'redis' ? '' : `--store ${store} `}--all --markdown docs/faults.md -->`;
const END = '<!-- end of results -->';
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
 * Writes the results into the page, between the two marks of their store. Kinds that did not run keep their row.
 *
 * @param {string} file @param {readonly import('./index.d.mts').Verdict[]} verdicts
 */
export function writeTable(file, verdicts) {
  const [{ figures }] = verdicts;
  const kinds = kindsOf(figures.store);
  const start = startOf(figures.store);
  const text = readFileSync(file, 'utf8');
  const [before, rest] = text.split(start);
  const end = rest.indexOf(END);
  const [table, after] = [rest.slice(0, end), rest.slice(end)];
  const rows = new Map(
    table.split('\n').flatMap((line) => {
      const name = /^\| `([^`]+)`/.exec(line)?.[1];
      return name ? [[name, line]] : [];
    }),
  );
  for (const verdict of verdicts) rows.set(verdict.figures.kind, rowOf(verdict, kinds));
  const ordered = kinds.flatMap(({ name }) => rows.get(name) ?? []);
  const lines = [`| ${HEAD.join(' | ')} |`, `|${' --- |'.repeat(HEAD.length)}`, ...ordered];
  writeFileSync(file, `${before}${start}\n\n${lines.join('\n')}\n\n${after}`);
}

/** @param {import('./index.d.mts').Verdict} verdict @param {readonly import('./index.d.mts').Kind[]} kinds */
function rowOf({ findings, figures }, kinds) {
  const { kind, faults, sections, recoveryMs, told, overlaps, refused } = figures;
  const says = kinds.find(({ name }) => name === kind)?.says;
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
