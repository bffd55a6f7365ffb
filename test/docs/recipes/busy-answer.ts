import { Controller, Get, Param } from '@nestjs/common';
import { Locked, type LockWaitTimeoutError } from 'nestjs-distributed-lock';

@Controller('quotes')
export class QuoteController {
  @Get(':id')
  @Locked('quote:<id>', {
    waitMs: 200,
    onBusy: (_busy: LockWaitTimeoutError, id: string) => ({ id, price: undefined, fresh: false }),
  })
  async quote(@Param('id') id: string) {
    return { id, price: 42 as number | undefined, fresh: true };
  }
}
