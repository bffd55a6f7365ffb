import { setImmediate as turn } from 'node:timers/promises';
import { runInThisContext } from 'node:vm';

/** Jest gives tests a copy of `process`, to which Node tells no warnings. */
const real = runInThisContext('process') as NodeJS.Process;

/** What Node warns of while `work` runs, such as a leak of listeners. */
export async function warningsDuring(work: () => Promise<unknown>): Promise<readonly string[]> {
  const warnings: string[] = [];
  const warn = (warning: Error): void => void warnings.push(`${warning.name}: ${warning.message}`);
  real.on('warning', warn);
  try {
    await work();
    // Node tells a warning in the next turn.
    await turn();
    return warnings;
  } finally {
    real.off('warning', warn);
  }
}
