import { Processor, WorkerHost } from '@nestjs/bullmq';
import type { Job } from 'bullmq';
import { Locked } from 'nestjs-distributed-lock';

@Processor('invoices')
export class InvoiceWorker extends WorkerHost {
  @Locked('customer:<job.data.customerId>', { waitMs: 60_000 })
  override async process(job: Job<{ readonly customerId: string }>): Promise<string> {
    return `one invoice at a time for ${job.data.customerId}`;
  }
}
