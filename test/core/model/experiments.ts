import { explore, type Exploration } from './explorer.js';
import { Protocol } from './protocol.js';
import type { Rule, Size } from './rules.js';

export interface Experiment {
  readonly off: readonly Rule[];
  readonly size: Size;
  /** Where nothing is seen to be wrong without the rule: what stands in for it. */
  readonly backup?: string;
  /** Too large for the tests: `npm run model` alone does it. */
  readonly isLarge?: true;
}

const size = (
  processes: number,
  callers: number,
  { java = false, faults = 0, aborts = 0, holds = false }: Partial<Omit<Size, 'processes' | 'callers'>>,
): Size => ({ processes, callers, java, faults, aborts, holds });

/** With all rules on: nothing may be found. */
export const SMALL: readonly Experiment[] = [
  { off: [], size: size(2, 1, { java: true, faults: 1 }) },
  { off: [], size: size(2, 2, { aborts: 1 }) },
  { off: [], size: size(3, 1, { aborts: 1 }) },
  { off: [], size: size(2, 1, { java: true, faults: 1, holds: true }) },
];

/** For `npm run model`: the same, larger. */
export const LARGE: readonly Experiment[] = [
  { off: [], size: size(2, 1, { java: true, faults: 1, aborts: 1 }) },
  { off: [], size: size(2, 1, { faults: 1, aborts: 1, holds: true }) },
  { off: [], size: size(2, 2, { java: true, aborts: 1 }) },
  { off: [], size: size(2, 1, { faults: 2 }) },
  { off: [], size: size(3, 1, { faults: 1 }) },
  { off: [], size: size(2, 2, { faults: 1 }) },
];

const lonely = size(2, 1, { faults: 1 });

/** Each rule that such a small world can show, taken away. */
export const WITHOUT: readonly Experiment[] = [
  { off: ['P1 not after'], size: size(2, 1, { faults: 1, aborts: 1 }) },
  { off: ['P1 repeated release'], size: size(2, 1, { faults: 1, aborts: 1 }) },
  { off: ['P2 age of a notification'], size: size(2, 1, { java: true, faults: 1 }) },
  { off: ['P3 first token at renewal'], size: size(2, 1, { faults: 2 }) },
  {
    off: ['P3 another grant means lost'],
    size: lonely,
    backup: 'the renewal that follows each grant: it names the first token (P3)',
  },
  { off: ['P4 release built once'], size: size(2, 2, { faults: 1 }) },
  { off: ['P4 give-back only by the holder of that block'], size: size(2, 2, { faults: 1 }), isLarge: true },
  { off: ['P5 release also frees'], size: size(2, 1, { faults: 1, aborts: 1 }) },
  { off: ['P6 rechecks'], size: lonely },
  { off: ['P9 min token'], size: size(2, 2, { faults: 1 }) },
  {
    off: ['P10 live until'],
    size: lonely,
    backup: 'the initial lease, and an unconfirmed grant that ran out drops the client (P12)',
  },
  { off: ['P10 skip'], size: lonely, backup: 'the next recheck, which enters the queue again (P6, P11)' },
  { off: ['P14 no token left'], size: size(2, 2, {}) },
  { off: ['P18 a script that finds it free grants'], size: size(2, 1, { java: true }) },
  {
    off: ['P22 back to the queue'],
    size: lonely,
    backup: 'a new owner, which asks anew: it costs the ticket and nothing else',
  },
  { off: ['initial lease'], size: lonely },
];

export function run({ off, size: it }: Experiment, mostStates: number): Exploration {
  return explore(new Protocol({ ...it, off: new Set(off) }), mostStates);
}

/** A row of the tables in docs/model.md. */
export function rowOf(experiment: Experiment, found: Exploration): string {
  const { processes, callers, java, faults, aborts, holds } = experiment.size;
  const extras = `${java ? ' + Java' : ''}${holds ? ' + minimum hold' : ''}`;
  const world = `${processes} × ${callers}${extras}, ${faults} faults, ${aborts} aborts`;
  const { violation, states, isComplete } = found;
  const result = violation
    ? `${violation.what}, after ${violation.trace.length} steps`
    : isComplete
      ? `nothing${experiment.backup === undefined ? '' : `: ${experiment.backup}`}`
      : 'nothing so far; not complete';
  return `| ${experiment.off.join(', ') || 'none'} | ${world} | ${states} | ${result} |`;
}
