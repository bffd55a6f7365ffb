import { Controller, Headers, Post } from '@nestjs/common';
import { Locked, LockService, lockKey } from 'nestjs-distributed-lock';

export abstract class Work {
  abstract import(tenant: string): Promise<string>;
  abstract export(tenant: string): Promise<string>;
}

export abstract class Plans {
  abstract importsAtOnce(tenant: string): Promise<number>;
}

@Controller()
export class TenantController {
  constructor(
    private readonly locks: LockService,
    private readonly plans: Plans,
    private readonly work: Work,
  ) {}

  /** Two at a time for each tenant. The third one is answered 429. */
  @Post('exports')
  @Locked('export:<headers.x-tenant>', { permits: 2, waitMs: 0, http: { busy: 429 } })
  async export(@Headers('x-tenant') tenant: string): Promise<string> {
    return this.work.export(tenant);
  }

  /** As many as the tenant has paid for. */
  @Post('imports')
  async import(@Headers('x-tenant') tenant: string): Promise<string> {
    const permits = await this.plans.importsAtOnce(tenant);
    return this.locks.withLock(lockKey`import:${tenant}`, { permits, waitMs: 0 }, () =>
      this.work.import(tenant),
    );
  }
}
