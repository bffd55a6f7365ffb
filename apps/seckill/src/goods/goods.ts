import type { Row } from '../database/database.js';

export interface Goods extends Row {
  readonly id: number;
  readonly name: string;
  readonly stock: number;
  /** The largest fencing token under which it was read or written. */
  readonly fence: number;
}
