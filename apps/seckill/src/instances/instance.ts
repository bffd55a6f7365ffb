import type { Row } from '../database/database.js';

/** A process of the app that runs now, as it last told the database. */
export interface Instance extends Row {
  readonly id: number;
  readonly url: string;
  /** How the owners of its locks begin; `null` before its first lock. */
  readonly client: string | null;
  /** How many of its callers wait, by key. */
  readonly waiting: Readonly<Record<string, number>>;
}
