import pg from 'pg';
import { Database, type Row } from './database.js';

/** Fencing tokens are bigint columns that hold safe integers; `pg` would give them as strings. */
const types = {
  getTypeParser(oid: number, format?: 'text' | 'binary') {
    return oid === pg.types.builtins.INT8 ? Number : pg.types.getTypeParser(oid, format);
  },
} as pg.CustomTypesConfig;

export class PostgresDatabase extends Database {
  private readonly pool: pg.Pool;

  constructor(url: string) {
    super();
    this.pool = new pg.Pool({ connectionString: url, types });
    // A connection that breaks while idle is replaced at the next query, which reports it if that fails, too.
    this.pool.on('error', () => {});
  }

  async query<T extends Row>(sql: string, parameters: readonly unknown[] = []): Promise<readonly T[]> {
    const { rows } = await this.pool.query<T>(sql, [...parameters]);
    return rows;
  }

  async close(): Promise<void> {
    await this.pool.end();
  }
}
