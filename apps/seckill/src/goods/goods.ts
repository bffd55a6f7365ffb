import type { Row } from '../database/database.js';

export interface Goods extends Row {
  readonly id: number;
  readonly name: string;
  readonly stock: number;
  /** The number of items that were ever on sale. More orders than this is overselling. */
  readonly offered: number;
  /** The largest fencing token under which it was read or written. */
  readonly fence: number;
  /** When this was read, on the clock of the database. */
  readonly readAt: Date;
}
