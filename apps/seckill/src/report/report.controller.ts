import { Controller, Get } from '@nestjs/common';
import type { Report } from './report.js';
import { ReportRepository } from './report.repository.js';

@Controller('reports')
export class ReportController {
  constructor(private readonly reports: ReportRepository) {}

  @Get()
  latest(): Promise<readonly Report[]> {
    return this.reports.latest();
  }
}
