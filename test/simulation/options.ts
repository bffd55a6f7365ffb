import { parseArgs } from 'node:util';
import { InputError } from './input-error.js';
import { seedOfTree } from './tree-seed.js';

export const HELP = `npm run simulate -- [options]

  --store NAME      documents (default), redis, quorum, etcd or zookeeper
  --contestant NAME another library in the place of ours, or ours under the same reduced programs: docs/simulation.md
  --seed N          runs one seed, and prints its history
  --count N         runs so many seeds, from --from on, until one fails
  --minutes N       the same for so many minutes of CPU time
  --from N | tree   the first of these seeds, default 1; tree: one that follows from the commit
  --jobs N          splits them over so many processes, and prints one summary with what they did
  --every N, --report  what --jobs gives to its processes: every N-th seed, and reports as JSON
  --safety          fails only where exclusion, tokens or belief are broken, and reports other broken promises with their command
  --all             goes on after a failure, and prints each in one line
  --plan FILE       runs a plan; may be given several times
  --json            with --plan: prints the history as data
  --export FILE     with --count or --minutes: writes each history there, one line of JSON each (verification/porcupine)
  --words           with --plan: prints the history although it keeps its promises
  --shrink          with --seed or --plan: leaves out what a failure does not need`;

const MAX_JOBS = 64;

export interface Options {
  readonly store: string;
  /** Another library. Then `store` says nothing. */
  readonly contestant: string | undefined;
  readonly seed: string | undefined;
  readonly plans: readonly string[];
  readonly from: number;
  readonly count: number;
  readonly minutes: number;
  readonly jobs: number | undefined;
  /** For a job: runs every so manieth seed, and prints its reports as JSON. */
  readonly every: number;
  readonly report: boolean;
  readonly all: boolean;
  readonly safety: boolean;
  readonly json: boolean;
  readonly words: boolean;
  /** The file to which each history is written. */
  readonly exportTo: string | undefined;
  readonly shrink: boolean;
  readonly help: boolean;
}

/** @throws InputError for an option that is unknown, has a wrong value, or says nothing beside the others */
export function optionsOf(args: readonly string[]): Options {
  const { values } = parsed(args);
  const {
    store,
    contestant,
    seed,
    plan: plans = [],
    from,
    count,
    minutes,
    all,
    safety,
    json,
    words,
    shrink,
    help,
  } = values;
  const { jobs, every, report, export: exportTo } = values;
  const one = [plans.length > 0 && '--plan', seed !== undefined && '--seed'].filter((it) => it !== false);
  const several = Object.entries({ from, count, minutes, jobs })
    .filter(([, value]) => value !== undefined)
    .map(([name]) => `--${name}`);
  if (one.length > 1) throw new InputError('--plan and --seed do not go together: a plan has a seed.');
  if (one.length > 0 && several.length > 0)
    throw new InputError(
      `${one[0]} and ${several[0]} do not go together: one runs one history, the other many.`,
    );
  if ((json || words) && plans.length === 0) throw new InputError('--json and --words go with --plan.');
  if (shrink && one.length === 0) throw new InputError('--shrink goes with --seed or --plan.');
  if (all && one.length > 0) throw new InputError('--all goes with --count or --minutes.');
  if (safety && (one.length > 0 || jobs !== undefined))
    throw new InputError('--safety goes with --count or --minutes, and not with --jobs.');
  if (exportTo !== undefined && (several.length === 0 || one.length > 0 || jobs !== undefined))
    throw new InputError('--export goes with --count or --minutes, and not with --jobs.');
  if (jobs !== undefined && count === undefined && minutes === undefined)
    throw new InputError('--jobs goes with --count or --minutes.');
  if (seed !== undefined) wholeOf('--seed', seed, 0);
  return {
    store,
    contestant,
    seed,
    plans,
    from: from === 'tree' ? seedOfTree() : wholeOf('--from', from ?? '1', 0),
    count: count === undefined ? Infinity : wholeOf('--count', count, 1),
    minutes: minutes === undefined ? Infinity : minutesOf(minutes),
    jobs: jobs === undefined ? undefined : wholeOf('--jobs', jobs, 1, MAX_JOBS),
    every: wholeOf('--every', every, 1),
    report,
    all,
    safety,
    json,
    words,
    exportTo,
    shrink,
    help,
  };
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        store: { type: 'string', default: 'documents' },
        contestant: { type: 'string' },
        seed: { type: 'string' },
        plan: { type: 'string', multiple: true },
        from: { type: 'string' },
        count: { type: 'string' },
        minutes: { type: 'string' },
        jobs: { type: 'string' },
        every: { type: 'string', default: '1' },
        report: { type: 'boolean', default: false },
        shrink: { type: 'boolean', default: false },
        words: { type: 'boolean', default: false },
        json: { type: 'boolean', default: false },
        export: { type: 'string' },
        all: { type: 'boolean', default: false },
        safety: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
  } catch (error) {
    // Node's further sentences are about how to pass words that are no options.
    const [what = ''] = (error as Error).message.split('. ');
    throw new InputError(`${what}. --help lists the options.`);
  }
}

function wholeOf(name: string, value: string, least: number, most = Infinity): number {
  const number = Number(value);
  if (/^\d+$/.test(value) && Number.isSafeInteger(number) && number >= least && number <= most) return number;
  const other = name === '--from' ? ', or tree' : '';
  throw new InputError(
    `${name} is a whole number from ${least} ${most === Infinity ? 'on' : `to ${most}`}${other}, and not "${value}".`,
  );
}

function minutesOf(value: string): number {
  const minutes = Number(value);
  if (value.trim() !== '' && minutes > 0) return minutes;
  throw new InputError(`--minutes is a number above 0, and not "${value}".`);
}
