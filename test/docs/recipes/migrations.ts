import { Injectable, Logger, type OnApplicationBootstrap } from '@nestjs/common';
import { LockService } from 'nestjs-distributed-lock';

export abstract class Migrations {
  /** The names that the table of migrations does not have yet. */
  abstract pending(): Promise<readonly string[]>;
  /** One transaction: the change and its row in the table of migrations. */
  abstract run(name: string): Promise<void>;
}

/** Nest waits for it before the application listens. */
@Injectable()
export class MigrateAtBoot implements OnApplicationBootstrap {
  constructor(
    private readonly locks: LockService,
    private readonly migrations: Migrations,
  ) {}

  async onApplicationBootstrap(): Promise<void> {
    await this.locks.withLock('migrations', { waitMs: 600_000 }, async (lock) => {
      for (const name of await this.migrations.pending()) {
        lock.assertHeld(); // an instance that has lost the lock stops here, and its boot fails
        await this.migrations.run(name);
        Logger.log(`${name} is done`, MigrateAtBoot.name);
      }
    });
  }
}
