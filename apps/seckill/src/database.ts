import type { OnApplicationShutdown } from '@nestjs/common';
import pg from 'pg';

export type Row = Record<string, unknown>;

/** Fencing tokens are bigint columns that hold safe integers. By default `pg` returns them as strings. */
const types = {
  getTypeParser(oid: number, format?: 'text' | 'binary') {
    return oid === pg.types.builtins.INT8 ? Number : pg.types.getTypeParser(oid, format);
  },
} as pg.CustomTypesConfig;

/** The Postgres of the shop. Each query is one statement, and so one transaction of its own. */
export class Database implements OnApplicationShutdown {
  private readonly pool: pg.Pool;

  constructor(url: string) {
    this.pool = new pg.Pool({ connectionString: url, types });
    // The pool replaces an idle connection that breaks. If that fails, the next query rejects.
    this.pool.on('error', () => {});
  }

  /** Parameters are `$1`, `$2`, …; the caller names the type of the rows. */
  async query<T extends Row>(sql: string, parameters: readonly unknown[] = []): Promise<readonly T[]> {
    const { rows } = await this.pool.query<T>(sql, [...parameters]);
    return rows;
  }

  async close(): Promise<void> {
    await this.pool.end();
  }

  /** The last step of a shutdown: all requests have ended by now. */
  onApplicationShutdown(): Promise<void> {
    return this.close();
  }
}
