import { InjectQueue, Processor, WorkerHost } from '@nestjs/bullmq';
import { Controller, HttpCode, Param, Post, Res } from '@nestjs/common';
import type { Job, Queue } from 'bullmq';
import { LockService } from 'nestjs-distributed-lock';

interface Export {
  readonly account: string;
  readonly baton: string;
}

@Controller('accounts/:account/exports')
export class ExportController {
  constructor(
    private readonly locks: LockService,
    @InjectQueue('exports') private readonly queue: Queue<Export>,
  ) {}

  /** 423 while an export of the account waits or runs, in whichever process. */
  @Post()
  @HttpCode(202)
  async start(@Param('account') account: string, @Res({ passthrough: true }) response: Headers) {
    const lock = await this.locks.acquire(`export:${account}`, { waitMs: 0 });
    const baton = await lock.detach({ leaseMs: 60_000 }); // how long the job may stand in the queue
    const job = await this.queue.add('export', { account, baton });
    response.header('location', `/exports/${job.id}`);
    return { id: job.id };
  }
}

export abstract class Exports {
  abstract write(account: string, fencingToken: number, signal: AbortSignal): Promise<string>;
}

@Processor('exports')
export class ExportWorker extends WorkerHost {
  constructor(
    private readonly locks: LockService,
    private readonly exports: Exports,
  ) {
    super();
  }

  override async process({ data }: Job<Export>): Promise<string> {
    await using lock = await this.locks.attach(data.baton); // renewed from here on
    return await this.exports.write(data.account, lock.fencingToken, lock.signal);
  }
}

interface Headers {
  header(name: string, value: string): unknown;
}
