import type { Row } from '../database/database.js';

/** A process of the app that runs now, as it last told the database. */
export interface Instance extends Row {
  /** Its number, and so its name on every page. */
  readonly id: number;
  readonly url: string;
  /** How the owners of its locks begin; `null` before its first lock. */
  readonly client: string | null;
  /** How many of its callers wait, by key. */
  readonly waiting: Readonly<Record<string, number>>;
}

/** An instance that may have been killed. One that closes in order is removed at once. */
export interface KnownInstance extends Instance {
  readonly isAlive: boolean;
}
