import { BadRequestException, Body, Controller, HttpCode, Post } from '@nestjs/common';
import { RestockService } from '../shop/restock.service.js';
import { PayMs, WholeNumberPipe } from '../shop/whole-number.pipe.js';
import { CrowdService, type CrowdState } from './crowd.service.js';

@Controller('crowd')
export class CrowdController {
  constructor(
    private readonly crowd: CrowdService,
    private readonly restocking: RestockService,
  ) {}

  @Post()
  @HttpCode(202)
  start(
    @Body('buyers', new WholeNumberPipe({ min: 1, max: 2000 })) buyers: number,
    @Body('payMs', PayMs) payMs: number,
    @Body('locked') locked: unknown = true,
  ): CrowdState {
    if (typeof locked !== 'boolean') throw new BadRequestException('locked must be true or false.');
    return this.crowd.start({ buyers, payMs, locked });
  }

  /** Sends the crowd home and puts everything back on the shelf. */
  @Post('reset')
  @HttpCode(204)
  async reset(): Promise<void> {
    await this.crowd.stop();
    await this.restocking.reset();
    this.crowd.state = null;
  }
}
