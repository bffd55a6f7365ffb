import type { Row } from '../database/database.js';

export interface Order extends Row {
  readonly id: number;
  readonly goodsId: number;
  readonly userId: string;
  /** The fencing token under which it was bought. */
  readonly fence: number;
}
