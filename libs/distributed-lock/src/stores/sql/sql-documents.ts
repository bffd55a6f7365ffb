import type { Reading } from '../core/document.js';
import type { Swap, Take, WriteReply } from '../core/register.js';
import { checkRowName } from './lock-name.js';
import type { SqlConnection } from './sql-connection.js';
import { readingOf } from './sql-row.js';
import type { Scan, Slice } from './slice.js';
import { timed } from './sql-requests.js';

/** Documents in the rows of one table, over one connection. */
export class SqlDocuments {
  constructor(protected readonly connection: SqlConnection) {}

  async take(take: Take): Promise<WriteReply> {
    const { name } = take;
    checkRowName(name);
    const { isDone, row } = await this.connection.run('take', timed(take), name);
    return { isDone, reading: readingOf(name, row) };
  }

  async swap(swap: Swap): Promise<WriteReply> {
    const { isDone, row } = await this.connection.run('swap', timed(swap), swap.name);
    return { isDone, reading: readingOf(swap.name, row) };
  }

  async read(name: string): Promise<Reading> {
    checkRowName(name);
    return readingOf(name, await this.connection.run('read', { name }, name));
  }

  scan(scan: Scan): Promise<Slice> {
    return this.connection.runAlone((link) => link.scan(scan));
  }

  deleteFree(names: readonly string[]): Promise<void> {
    return this.connection.runAlone((link) => link.deleteFree(names));
  }

  async close(): Promise<void> {
    this.connection.close();
  }
}
