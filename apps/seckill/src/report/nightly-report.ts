import { Injectable } from '@nestjs/common';
import { Cron, CronExpression } from '@nestjs/schedule';
import { Locked } from 'nestjs-distributed-lock';
import { InstanceService } from '../instances/instance.service.js';
import type { Report } from './report.js';
import { ReportRepository } from './report.repository.js';

/** Clocks of instances that differ by less than this still make one report. */
const SKEW_MS = 60_000;

@Injectable()
export class NightlyReport {
  constructor(
    private readonly reports: ReportRepository,
    private readonly instance: InstanceService,
  ) {}

  /**
   * The timer fires on every instance. The first makes the report, and the others find the lock held and return. The
   * lock outlasts the few ms of work, for instances whose timer fires a little later.
   *
   * @returns `undefined` when another instance makes it
   */
  @Cron(CronExpression.EVERY_DAY_AT_3AM, { name: 'nightly report' })
  @Locked('report:nightly', { onBusy: 'skip', holdAtLeastMs: SKEW_MS })
  async make(): Promise<Report | undefined> {
    return this.reports.make(this.instance.id);
  }
}
