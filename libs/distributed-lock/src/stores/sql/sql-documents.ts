import { promiseOf } from '../../async-context/promise-of.js';
import type { LockDocument, Reading } from '../core/document.js';
import type { NamePage, NameRequest, Swap, Take, WriteReply } from '../core/register.js';
import { checkLockName, checkRowName, isIntroduction } from './lock-name.js';
import type { SqlConnection } from './sql-connection.js';
import type { SqlWriteReply } from './sql-database.js';
import { readingOf } from './sql-row.js';
import type { Scan, Slice } from './slice.js';

/** Documents in the rows of one table, over one connection. */
export class SqlDocuments {
  constructor(protected readonly connection: SqlConnection) {}

  take(take: Take): Promise<WriteReply> {
    return promiseOf(() => {
      checkLockName(take.name);
      return this.takeRow(take);
    });
  }

  takeRow(take: Take): Promise<WriteReply> {
    const { name } = take;
    return this.connection.run('take', take, name).then((reply) => writeReply(name, reply));
  }

  swap(swap: Swap): Promise<WriteReply> {
    const { name } = swap;
    return this.connection.run('swap', swap, name).then((reply) => writeReply(name, reply));
  }

  /** Writes a document that no lane has, soon after it was read. Nothing is granted by that. */
  replace(name: string, expected: Reading, next: LockDocument): Promise<WriteReply> {
    const { lastToken } = expected;
    const notAfter = (): number => this.soonAfter(expected);
    const swap = { name, expected, next, lastToken, isExact: true, notified: [], mayBeForgotten: true };
    return this.swap({ ...swap, notAfter });
  }

  async read(name: string): Promise<Reading> {
    checkRowName(name);
    return readingOf(name, await this.connection.run('read', { name }, name));
  }

  /** Looks through rows in order of their names, which the index gives, and picks those that are not free. */
  async list({ prefix, after, most }: NameRequest): Promise<NamePage> {
    checkRowName(prefix);
    checkRowName(after ?? '');
    const first = after === undefined && prefix !== '' ? [prefix] : [];
    const { last, held } = await this.scan({ after: after ?? prefix, most });
    const names = [...first, ...held].filter((name) => name.startsWith(prefix) && !isIntroduction(name));
    return { names, after: last?.startsWith(prefix) ? last : undefined };
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

  /** The not-after of a write that follows a reading at once. */
  protected soonAfter({ now }: Reading): number {
    return Math.ceil(now + 2 * this.connection.commandTimeoutMs);
  }
}

function writeReply(name: string, { isDone, row }: SqlWriteReply): WriteReply {
  return { isDone, reading: readingOf(name, row) };
}
