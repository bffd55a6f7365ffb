import type { ManualClock } from 'nestjs-distributed-lock/testing';
import type { SqlDatabase, SqlFailure, SqlLink } from '../../libs/distributed-lock/src/sql/database.js';
import { Rows } from '../simulation/backends/documents/rows.js';
import { type BatchedKind, requestOf } from '../simulation/backends/documents/wire.js';

/** A database with one lock table, in the memory of a test. Its time of day is that of the clock. */
export class SqlTable implements SqlDatabase {
  readonly server = 'SQL';
  readonly rows: Rows;
  /** How many statements of each kind were executed. */
  readonly executed = { take: 0, swap: 0, read: 0, scan: 0, deleteFree: 0, ping: 0 };

  constructor(private readonly clock: ManualClock) {
    this.rows = new Rows(
      () => clock.timeOfDay(),
      () => undefined,
    );
  }

  failureOf(error: unknown): SqlFailure {
    return { reason: 'unknown', detail: String(error) };
  }

  async open(): Promise<SqlLink> {
    const { rows, executed } = this;
    const run = <Kind extends BatchedKind>(kind: Kind): SqlLink[Kind] =>
      (async (items: Parameters<SqlLink[Kind]>[0]) => {
        executed[kind] += 1;
        const request = requestOf(kind, items);
        if (request.kind === 'take') return request.items.map((item) => rows.take(item));
        if (request.kind === 'swap') return request.items.map((item) => rows.swap(item));
        return items.map(({ name }) => rows.read(name));
      }) as unknown as SqlLink[Kind];
    return {
      opened: { now: this.clock.timeOfDay(), sentAt: this.clock.now() },
      take: run('take'),
      swap: run('swap'),
      read: run('read'),
      scan: async (after, most) => {
        executed.scan += 1;
        return rows.scan(after, most);
      },
      deleteFree: async (names) => {
        executed.deleteFree += 1;
        rows.deleteFree(names);
      },
      ping: async () => void (executed.ping += 1),
      destroy: () => undefined,
    };
  }
}
