import { Module } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { NightlyReport } from './nightly-report.js';
import { ReportController } from './report.controller.js';
import { ReportRepository } from './report.repository.js';

@Module({
  imports: [ScheduleModule.forRoot()],
  controllers: [ReportController],
  providers: [NightlyReport, ReportRepository],
})
export class ReportModule {}
