import { Injectable, Logger, type OnApplicationBootstrap } from '@nestjs/common';
import { LockService, LockShutdownError } from 'nestjs-distributed-lock';

export abstract class Feed {
  abstract importNext(signal: AbortSignal): Promise<void>;
}

/** Runs on one instance at a time, for as long as that lives. */
@Injectable()
export class Importer implements OnApplicationBootstrap {
  constructor(
    private readonly locks: LockService,
    private readonly feed: Feed,
  ) {}

  onApplicationBootstrap(): void {
    this.run().catch((error: unknown) => {
      if (!(error instanceof LockShutdownError)) Logger.error(error, Importer.name);
    });
  }

  private run(): Promise<void> {
    return this.locks.withLock('import', { waitMs: Infinity }, async (lock) => {
      const stop = AbortSignal.any([lock.signal, lock.shutdownSignal]);
      while (!stop.aborted) await this.feed.importNext(stop);
    });
  }
}
