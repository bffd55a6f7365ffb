import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { kindsOf } from './faults/index.mjs';
import { asMs, median } from './report.mjs';

const START = '<!-- results -->';
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
 * Writes the results into the page of their store, verification/chaos/results/<store>.md, between its two marks. Kinds that did not run keep
 * their row.
 *
 * @param {readonly import('./index.d.mts').Verdict[]} verdicts
 */
export function writeTable(verdicts) {
  const [{ figures }] = verdicts;
  const kinds = kindsOf(figures.store);
  const file = fileURLToPath(new URL(`results/${figures.store}.md`, import.meta.url));
  const text = existsSync(file) ? readFileSync(file, 'utf8') : emptyPage(figures.store);
  const [before, rest] = text.split(START);
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
  writeFileSync(file, `${before}${START}\n\n${lines.join('\n')}\n\n${after}`);
}

/** @param {string} store */
const emptyPage = (store) => `# The fault suite on ${store}\n\n${START}\n\n${END}\n`;

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
