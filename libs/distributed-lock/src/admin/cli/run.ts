import { LockService } from '../../lock/lock.service.js';
import { isLockError, LockConfigurationError } from '../../port/lock.errors.js';
import { COMMANDS } from './commands.js';
import { readCommandLine, USAGE, WrongUse } from './command-line.js';
import { openStore } from './open-store.js';
import { withoutSecrets } from './without-secrets.js';
import { Interrupted, type Terminal } from './terminal.js';

export const INTERRUPTED = 130;
/** The default of the module. Stores refuse less than three times the timeout of a command. */
const WATCHDOG_MS = 30_000;

/** Runs one command. Never prints a password. @returns the exit code */
export async function run(
  words: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  terminal: Terminal,
): Promise<number> {
  let url = '';
  try {
    const command = readCommandLine(words, env);
    if (command === 'help') {
      terminal.write(USAGE);
      return 0;
    }
    url = command.store;
    const { prefix: keyPrefix, timeoutMs } = command;
    const store = await openStore(command);
    const watchdogTimeoutMs = Math.max(WATCHDOG_MS, 3 * timeoutMs);
    const locks = new LockService({
      store,
      keyPrefix,
      application: 'nestjs-distributed-lock',
      watchdogTimeoutMs,
      shutdownGraceMs: 0,
    });
    try {
      return await COMMANDS[command.name](locks, command, terminal);
    } finally {
      await locks.close();
    }
  } catch (error) {
    if (error instanceof Interrupted) return INTERRUPTED;
    const code = exitCodeOf(error);
    if (code === undefined) throw error;
    terminal.complain(withoutSecrets((error as Error).message, url));
    return code;
  }
}

function exitCodeOf(error: unknown): number | undefined {
  if (error instanceof WrongUse || error instanceof LockConfigurationError) return 2;
  if (!isLockError(error)) return undefined;
  return error.code === 'LOCK_STORE' ? 3 : 2;
}
