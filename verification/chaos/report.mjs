import { relative } from 'node:path';
import { folderOf } from './folders.mjs';

const SHOWN = 8;

/** One line for one trial. @param {import('./index.d.mts').Verdict} verdict */
export function lineOf({ findings, figures }) {
  const { kind, seed, faults, sections, told, overlaps, refused } = figures;
  const parts = [
    `seed ${seed}`,
    `${faults} faults`,
    `${sections} sections`,
    `recovery ${asMs(median(figures.recoveryMs))}, at worst ${asMs(Math.max(0, ...figures.recoveryMs))}`,
    `${told} told of a loss`,
    `${overlaps} overlaps`,
    `${refused} refused by token`,
    findings.length === 0 ? 'ok' : `${findings.length} FINDINGS`,
  ];
  return `${kind.padEnd(22)} ${parts.join(' · ')}`;
}

/** The findings, and where to look. @param {readonly import('./index.d.mts').Verdict[]} verdicts */
export function report(verdicts) {
  for (const { findings, figures } of verdicts) {
    if (findings.length === 0) continue;
    console.log(`\n${figures.kind}, seed ${figures.seed}: ${JSON.stringify(figures.outcomes)}`);
    for (const { rule, finding } of findings.slice(0, SHOWN)) console.log(`  ${rule}: ${finding}`);
    if (findings.length > SHOWN) console.log(`  and ${findings.length - SHOWN} more`);
    console.log(`  history: ${relative('.', folderOf(figures))}/history.jsonl`);
  }
  console.log(totals(verdicts));
  const failed = verdicts.filter(({ findings }) => findings.length > 0).length;
  console.log(`${verdicts.length - failed} trials passed, ${failed} failed`);
}

/** @param {readonly import('./index.d.mts').Verdict[]} verdicts */
export function faultsIn(verdicts) {
  return sum(verdicts.map(({ figures }) => figures.faults));
}

/** All trials together. @param {readonly import('./index.d.mts').Verdict[]} verdicts */
function totals(verdicts) {
  const total = (name) => sum(verdicts.map(({ figures }) => figures[name]));
  const accepted = verdicts.flatMap(({ findings }) => findings).filter(({ rule }) => rule === 'register');
  return [
    `${total('faults')} faults injected`,
    `${total('sections')} sections`,
    `${total('refused')} stale writes refused by token`,
    `${accepted.length} accepted`,
  ].join(' · ');
}

const sum = (values) => values.reduce((total, value) => total + value, 0);

export function asMs(ms) {
  return ms >= 1000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms)} ms`;
}

export function median(values) {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}
