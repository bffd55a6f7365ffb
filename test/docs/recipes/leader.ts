import { setTimeout } from 'node:timers/promises';
import { Injectable, Logger, type OnApplicationBootstrap } from '@nestjs/common';
import { LockService, LockShutdownError, type Lock } from 'nestjs-distributed-lock';

export abstract class Feed {
  abstract importNext(signal: AbortSignal): Promise<void>;
}

/** Leads on one instance at a time. When that instance closes, dies or loses the lock, another one leads. */
@Injectable()
export class ImportLeader implements OnApplicationBootstrap {
  constructor(
    private readonly locks: LockService,
    private readonly feed: Feed,
  ) {}

  onApplicationBootstrap(): void {
    void this.stand(); // the boot does not wait for it
  }

  private async stand(): Promise<void> {
    for (;;) {
      try {
        await this.locks.withLock('leader:import', { waitMs: Infinity }, (lock) => this.lead(lock));
      } catch (error) {
        if (error instanceof LockShutdownError) return; // this instance closes
        Logger.error(error, ImportLeader.name); // a lost lock, or an error of the feed: stand again
        await setTimeout(1000, undefined, { ref: false });
      }
    }
  }

  private async lead(lock: Lock): Promise<void> {
    const stop = AbortSignal.any([lock.signal, lock.shutdownSignal]);
    while (!stop.aborted) await this.feed.importNext(stop);
  }
}
