import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-distributed-lock';

export abstract class BankApi {
  abstract post(path: string, body: unknown): Promise<string>;
}

/** All instances together send at most five requests at a time. */
@Injectable()
export class Bank {
  constructor(private readonly api: BankApi) {}

  @Locked('api:bank', { permits: 5, waitMs: 10_000 })
  async pay(invoice: string): Promise<string> {
    return this.api.post('/payments', invoice);
  }

  @Locked('api:bank', { permits: 5, weight: 3, waitMs: 10_000 }) // as heavy as three payments
  async payAll(invoices: readonly string[]): Promise<string> {
    return this.api.post('/batches', invoices);
  }

  @Locked('api:bank:mails', { permits: 5, holdAtLeastMs: 1000, waitMs: 60_000 }) // at most five a second
  async mail(invoice: string): Promise<string> {
    return this.api.post('/mails', invoice);
  }
}
