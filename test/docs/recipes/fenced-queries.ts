import type { SqlQuery } from 'nestjs-distributed-lock/guard';
import { CompiledQuery, type Kysely } from 'kysely';
import type { Pool as MysqlPool, ResultSetHeader, RowDataPacket } from 'mysql2/promise';
import type { Pool } from 'pg';
import type { DataSource } from 'typeorm';

export const pgQuery =
  (pool: Pick<Pool, 'query'>): SqlQuery =>
  async (sql, parameters) => {
    const { rows, rowCount } = await pool.query(sql, parameters);
    return { rows, changed: rowCount ?? 0 };
  };

export const kyselyQuery =
  <T>(db: Kysely<T>): SqlQuery =>
  async (sql, parameters) => {
    const query = CompiledQuery.raw(sql, parameters);
    const { rows, numAffectedRows } = await db.executeQuery<Record<string, unknown>>(query);
    return { rows, changed: Number(numAffectedRows ?? 0) };
  };

export const typeormQuery =
  (source: DataSource): SqlQuery =>
  async (sql, parameters) => {
    const runner = source.createQueryRunner();
    try {
      const { records, affected } = await runner.query(sql, parameters, true);
      return { rows: records, changed: affected ?? 0 };
    } finally {
      await runner.release();
    }
  };

// mysql2 counts the rows that an update met, which is what is needed: leave its FOUND_ROWS flag on.
export const mysqlQuery =
  (pool: Pick<MysqlPool, 'query'>): SqlQuery =>
  async (sql, parameters) => {
    const [result] = await pool.query<RowDataPacket[] | ResultSetHeader>(sql, parameters);
    if (Array.isArray(result)) return { rows: result, changed: 0 };
    return { rows: [], changed: result.affectedRows };
  };
