import { Controller, Get, Param } from '@nestjs/common';
import { Locked, type LockWaitTimeoutError } from 'nestjs-distributed-lock';

export interface Rate {
  readonly currency: string;
  readonly value: number;
}

/** Shared by all instances: a table, or Redis. */
export abstract class LastRates {
  abstract get(currency: string): Promise<Rate | undefined>;
  abstract set(rate: Rate): Promise<void>;
}

export abstract class Exchange {
  abstract rateOf(currency: string): Promise<number>;
}

@Controller('rates')
export class RateController {
  constructor(
    private readonly exchange: Exchange,
    private readonly last: LastRates,
  ) {}

  @Get(':currency')
  @Locked('rate:<currency>', {
    waitMs: 0,
    async onBusy(this: RateController, busy: LockWaitTimeoutError, currency: string): Promise<Rate> {
      const rate = await this.last.get(currency);
      if (!rate) throw busy; // there is none yet: 423
      return rate;
    },
  })
  async rate(@Param('currency') currency: string): Promise<Rate> {
    const rate = { currency, value: await this.exchange.rateOf(currency) };
    await this.last.set(rate);
    return rate;
  }
}
