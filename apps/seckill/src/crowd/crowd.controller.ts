import { Body, Controller, HttpCode, Post } from '@nestjs/common';
import { crowdOptions } from './crowd.input.js';
import { CrowdService, type CrowdState } from './crowd.service.js';
import { ResetService } from './reset.service.js';

@Controller('crowd')
export class CrowdController {
  constructor(
    private readonly crowd: CrowdService,
    private readonly sale: ResetService,
  ) {}

  @Post()
  @HttpCode(202)
  start(@Body() body: Readonly<Record<string, unknown>> | undefined): Promise<CrowdState> {
    return this.crowd.start(crowdOptions(body));
  }

  @Post('reset')
  @HttpCode(204)
  async reset(): Promise<void> {
    await this.crowd.stop();
    await this.sale.reset();
    this.crowd.state = null;
  }
}
