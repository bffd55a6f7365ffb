import { Injectable } from '@nestjs/common';
import { LockService, lockKey } from 'nestjs-distributed-lock';

export abstract class Database {
  abstract transaction<T>(
    work: (query: (sql: string, values: unknown[]) => Promise<void>) => Promise<T>,
  ): Promise<T>;
}

@Injectable()
export class Accounts {
  constructor(
    private readonly locks: LockService,
    private readonly database: Database,
  ) {}

  deposit(id: number, amount: number): Promise<void> {
    return this.locks.withLock(lockKey`account:${id}`, (lock) =>
      this.database.transaction(async (query) => {
        await query('UPDATE accounts SET balance = balance + $2 WHERE id = $1', [id, amount]);
        lock.assertHeld(); // rolls back instead of committing without the lock
      }),
    );
  }
}
