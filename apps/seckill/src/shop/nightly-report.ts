import { Injectable } from '@nestjs/common';
import { Cron, CronExpression } from '@nestjs/schedule';
import { Locked } from 'nestjs-distributed-lock';
import { Database, type Row } from '../database.js';

export interface Report extends Row {
  readonly orders: number;
  readonly oversold: number;
}

/** Instances whose clocks differ by less than this still make one report. */
const MAX_CLOCK_SKEW_MS = 60_000;

const MAKE = `
  INSERT INTO reports (orders, oversold)
  SELECT coalesce(sum(sold), 0), coalesce(sum(greatest(sold - offered, 0)), 0)
  FROM (SELECT offered, (SELECT count(*) FROM orders WHERE goods_id = goods.id) AS sold FROM goods) AS item
  RETURNING orders, oversold`;

@Injectable()
export class NightlyReport {
  constructor(private readonly database: Database) {}

  /**
   * The timer fires on every instance. The first one makes the report, and the others find the lock held and return. The
   * lock outlasts the few ms of work, for instances whose timer fires a little later.
   *
   * @returns `undefined` when another instance makes it
   */
  @Cron(CronExpression.EVERY_DAY_AT_3AM, { name: 'nightly report' })
  @Locked('report:nightly', { onBusy: 'skip', holdAtLeastMs: MAX_CLOCK_SKEW_MS })
  async make(): Promise<Report | undefined> {
    const [report] = await this.database.query<Report>(MAKE);
    return report;
  }
}
