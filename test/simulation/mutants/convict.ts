import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Mutant } from './mutant.js';

const ROOT = new URL('../../../../../', import.meta.url);
const PRELOAD = new URL('chaos/mutants/preload.mjs', ROOT).href;
/** So many times its minutes, on a busy machine. A simulation that takes longer hangs: in one turn of its event loop. */
const LONGEST = 30;
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
  const watch = setTimeout(() => (hangs = child.kill('SIGKILL')), LONGEST * minutes * 60_000);
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
    clearTimeout(watch);
    child.kill('SIGKILL');
  }
}
