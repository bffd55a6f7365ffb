import type { Reading } from '../core/reading.js';
import type { Swap, SwapReply, Take, TakeReply } from '../core/register.js';
import { checkLockName } from './lock-name.js';
import type { SqlConnection } from './sql-connection.js';
import { readingOf } from './sql-row.js';
import { timed, type Scan, type Slice } from './sql-requests.js';

/** Documents in the rows of one table, over one connection. */
export class SqlDocuments {
  constructor(protected readonly connection: SqlConnection) {}

  async take(take: Take): Promise<TakeReply> {
    const { name } = take;
    checkLockName(name);
    const { isDone, row } = await this.connection.run('take', timed(take), name);
    return { isTaken: isDone, reading: readingOf(name, row) };
  }

  async swap(swap: Swap): Promise<SwapReply> {
    const { isDone, row } = await this.connection.run('swap', timed(swap), swap.name);
    return { isSwapped: isDone, reading: readingOf(swap.name, row) };
  }

  async read(name: string): Promise<Reading> {
    checkLockName(name);
    const { row } = await this.connection.run('read', { name }, name);
    return readingOf(name, row);
  }

  scan(scan: Scan): Promise<Slice> {
    return this.connection.run('scan', { name: '', ...scan });
  }

  async deleteFree(names: readonly string[]): Promise<void> {
    await this.connection.run('deleteFree', { name: '', names });
  }

  async close(): Promise<void> {
    this.connection.close();
  }
}
