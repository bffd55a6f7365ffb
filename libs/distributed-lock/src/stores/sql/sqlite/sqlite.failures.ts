import { LockConfigurationError } from '../../../port/lock.errors.js';
import { textOf } from '../../common/connection/connection-errors.js';
import type { SqlFailure } from '../sql-database.js';
import { ReplacedError } from './database-files.js';

const BUSY = {
  reason: 'unready',
  mayRepeat: true,
  advice: 'Another process holds the file for too long: it is frozen, or has a transaction of its own open',
} as const;
const NO_FILE = {
  reason: 'refused',
  advice: 'The folder must exist, and this process must be allowed to write there',
} as const;
const NO_SPACE = { reason: 'unready', advice: 'The disk is full or broken' } as const;

/** The failures by the result codes of SQLite. */
const FAILURES: Readonly<Record<number, Omit<SqlFailure, 'detail'> & { readonly advice: string }>> = {
  5: BUSY,
  6: BUSY,
  8: NO_FILE,
  10: NO_SPACE,
  13: NO_SPACE,
  14: NO_FILE,
  26: { reason: 'refused', advice: 'Give sqliteStore a file of its own' },
};

/** The result code, without its extension. */
function codeOf(error: unknown): number {
  return ((error as { readonly errcode?: number } | undefined)?.errcode ?? 0) & 0xff;
}

export function isBusy(error: unknown): boolean {
  return FAILURES[codeOf(error)] === BUSY;
}

/** A statement that fails has changed nothing: SQLite has rolled back its transaction, or `SqliteLink` does. */
export function sqliteFailure(error: unknown): SqlFailure {
  const detail = textOf(error);
  if (error instanceof LockConfigurationError) return { reason: 'refused', detail };
  if (error instanceof ReplacedError) {
    return error.wasExecuted
      ? { reason: 'unknown', detail }
      : { reason: 'unready', detail, mayRepeat: true, isFatal: true };
  }
  const { advice, ...failure } = FAILURES[codeOf(error)] ?? { reason: 'refused' as const, mayBeOne: true };
  return { ...failure, detail: advice === undefined ? detail : `${detail}. ${advice}.` };
}
