import { Injectable } from '@nestjs/common';
import { Cron } from '@nestjs/schedule';
import { CurrentLock, Locked, type Lock } from 'nestjs-distributed-lock';

@Injectable()
export class NightlyReport {
  @Cron('0 3 * * *')
  @Locked('job:nightly-report', { onBusy: 'skip', holdAtLeastMs: 60_000 })
  async run(@CurrentLock() lock?: Lock): Promise<void> {
    for (const page of [1, 2, 3]) {
      lock?.assertHeld(); // a job that has lost its lock stops here
      await this.write(page);
    }
  }

  private async write(page: number): Promise<void> {
    console.log(`page ${page}`);
  }
}
