import type { Row } from '../database/database.js';

export interface Report extends Row {
  readonly id: number;
  readonly madeAt: Date;
  /** Which instance made it. */
  readonly instance: number;
  readonly orders: number;
  readonly oversold: number;
}
