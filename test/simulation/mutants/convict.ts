import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Mutant } from './mutant.js';

const ROOT = new URL('../../../../../', import.meta.url);
const PRELOAD = new URL('verification/chaos/mutants/preload.mjs', ROOT).href;
/** A simulation that takes so many times its minutes hangs: in one turn of its event loop. */
const LONGEST = 2;
/** Where the system does not tell the CPU time of another process. A busy machine takes longer, too. */
const MAX_BY_THE_CLOCK = 20;
const WATCH_EVERY_MS = 5000;
const TICKS_PER_SECOND = 100;
const SIMULATION = fileURLToPath(new URL('../main.js', import.meta.url));

/** What the simulation says of a mutant. */
export interface Verdict {
  readonly mutant: Mutant;
  /** CPU seconds until a promise was broken, or what was given to a mutant that hangs; `undefined` if none was. */
  readonly seconds: number | undefined;
  /** The rule that was broken, and how; or what went wrong. */
  readonly text: string;
}

/** Runs new seeds with the mutant, until a promise is broken or the time is over. */
export async function convict(mutant: Mutant, minutes: number): Promise<Verdict> {
  const child = spawn(
    process.execPath,
    ['--import', PRELOAD, SIMULATION, '--store', mutant.store, '--minutes', String(minutes), '--all'],
    { env: { ...process.env, CHAOS_MUTANT: JSON.stringify(mutant) }, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let last = '';
  let hangs = false;
  const startedAt = Date.now();
  const watch = setInterval(() => {
    const seconds = cpuSecondsOf(child.pid);
    const isOver =
      seconds === undefined
        ? Date.now() - startedAt > MAX_BY_THE_CLOCK * minutes * 60_000
        : seconds > LONGEST * minutes * 60;
    if (isOver) hangs = child.kill('SIGKILL');
  }, WATCH_EVERY_MS);
  child.stderr.setEncoding('utf8').on('data', (text: string) => (last = text));
  try {
    for await (const line of createInterface(child.stdout)) {
      const [, seconds, text = ''] = /^seed \S+ after ([\d.]+) CPU seconds: (.*)$/.exec(line) ?? [];
      if (seconds !== undefined) return { mutant, seconds: Number(seconds), text };
      last = line;
    }
    if (hangs) return { mutant, seconds: minutes * 60, text: 'hangs: a history did not end' };
    if (!last.includes(' histories of ')) throw new Error(`The simulation did not run: ${last}`);
    return { mutant, seconds: undefined, text: last.trim() };
  } finally {
    clearInterval(watch);
    child.kill('SIGKILL');
  }
}

/** As Linux tells it: user and system time are the 14th and 15th field, and the second one may have spaces. */
function cpuSecondsOf(pid: number | undefined): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [user = 0, system = 0] = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .slice(11, 13)
      .map(Number);
    return (user + system) / TICKS_PER_SECOND;
  } catch {
    return undefined;
  }
}
