import { Injectable } from '@nestjs/common';
import { exclusive, Locked, LockService, lockKey, permits, shared } from 'nestjs-distributed-lock';

export abstract class Drive {
  abstract write(file: string, text: string): Promise<string>;
  abstract move(folder: string, to: string): Promise<string>;
  abstract export(customer: string): Promise<string>;
}

@Injectable()
export class Documents {
  constructor(
    private readonly locks: LockService,
    private readonly drive: Drive,
  ) {}

  /** Runs beside writers of other files of this folder. */
  @Locked([shared('folder:<folder>'), 'file:<file>'])
  async write(folder: string, file: string, text: string): Promise<string> {
    return this.drive.write(`${folder}/${file}`, text);
  }

  /** Runs alone: meanwhile nobody writes a file of this folder. */
  @Locked(exclusive('folder:<folder>'))
  async move(folder: string, to: string): Promise<string> {
    return this.drive.move(folder, to);
  }

  /** One export at a time for each customer, and ten in all. */
  @Locked([permits('customer:<customer>', 1), permits('exports', 10)], { waitMs: 60_000 })
  async export(customer: string): Promise<string> {
    return this.drive.export(customer);
  }

  /** As many for each customer as its plan allows. */
  async exportNow(customer: string, atOnce: number): Promise<string> {
    const limits = [permits(lockKey`customer:${customer}`, atOnce), permits('exports', 10)];
    return this.locks.withLock(limits, { waitMs: 0 }, () => this.drive.export(customer));
  }
}
