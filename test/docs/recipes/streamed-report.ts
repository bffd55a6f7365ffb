import { Controller, Get, Injectable, Param } from '@nestjs/common';
import { LockSignal, Locked } from 'nestjs-distributed-lock';

@Injectable()
export class Ledger {
  @Locked('ledger:<year>')
  async *entries(year: string, @LockSignal() signal?: AbortSignal): AsyncGenerator<string> {
    for (let month = 1; month <= 12 && !signal?.aborted; month++) yield `${year}-${month}\n`;
  }
}

@Controller('ledgers')
export class LedgerController {
  constructor(private readonly ledger: Ledger) {}

  @Get(':year')
  @Locked('report:<year>')
  async *report(@Param('year') year: string): AsyncGenerator<string> {
    yield `Report of ${year}\n`;
    yield* this.ledger.entries(year);
  }
}
