import type { Database } from '../database/database.js';
import type { Kill } from './kill.js';

/** The running app, in one process or several, with a way around it to its database. */
export interface Shop {
  /** One address for each process that runs now. */
  readonly urls: readonly string[];
  readonly database: Database;
  /** Aborts when the shop closes during a sale, as on SIGINT. */
  readonly closing: AbortSignal;
  /**
   * Kills the process that holds the lock of an item, with SIGKILL and while it holds.
   *
   * @returns `undefined` when `signal` aborts before a holder was caught
   */
  killHolder(goodsId: number, signal: AbortSignal): Promise<Kill | undefined>;
  close(): Promise<void>;
}
