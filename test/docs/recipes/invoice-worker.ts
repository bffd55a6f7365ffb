import { Processor, WorkerHost } from '@nestjs/bullmq';
import type { Job } from 'bullmq';
import { LockedJob } from 'nestjs-distributed-lock/bullmq';

@Processor('invoices', { concurrency: 8 })
export class InvoiceWorker extends WorkerHost {
  @LockedJob('customer:<job.data.customerId>')
  override async process(job: Job<{ readonly customerId: string }>): Promise<string> {
    return `one invoice at a time for ${job.data.customerId}`;
  }
}
