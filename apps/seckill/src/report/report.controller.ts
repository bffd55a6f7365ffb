import { Controller, Get } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import type { Report } from './report.js';
import { ReportRepository } from './report.repository.js';

@ApiTags('reports')
@Controller('reports')
export class ReportController {
  constructor(private readonly reports: ReportRepository) {}

  @Get()
  latest(): Promise<readonly Report[]> {
    return this.reports.latest();
  }
}
