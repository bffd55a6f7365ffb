import type { Database } from '../database/database.js';

/** The running app, in one process or several, with a way around it to its database. */
export interface Shop {
  /** One address for each process that runs now. */
  readonly urls: readonly string[];
  readonly database: Database;
  /** Kills one process with SIGKILL. */
  killOne(): Promise<void>;
  close(): Promise<void>;
}
