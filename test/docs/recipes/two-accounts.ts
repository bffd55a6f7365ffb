import { ConflictException, Injectable } from '@nestjs/common';
import { CurrentLock, Locked, type Lock } from 'nestjs-distributed-lock';

type Query = (sql: string, values: unknown[]) => Promise<{ readonly balance: number }[]>;

export abstract class Database {
  abstract transaction<T>(work: (query: Query) => Promise<T>): Promise<T>;
}

@Injectable()
export class Transfers {
  constructor(private readonly database: Database) {}

  @Locked(['account:<from>', 'account:<to>'], { waitMs: 3000 })
  async move(from: number, to: number, amount: number, @CurrentLock() lock?: Lock): Promise<void> {
    await this.database.transaction(async (query) => {
      const [account] = await query('SELECT balance FROM accounts WHERE id = $1', [from]);
      if (!account || account.balance < amount) throw new ConflictException('There is not enough money');
      await query('UPDATE accounts SET balance = balance - $2 WHERE id = $1', [from, amount]);
      await query('UPDATE accounts SET balance = balance + $2 WHERE id = $1', [to, amount]);
      lock?.assertHeld(); // rolls back instead of committing without the lock
    });
  }
}
