import mysql, { type RowDataPacket } from 'mysql2/promise';
import type { SqlDialect, SqlQuery, SqlRow } from 'nestjs-distributed-lock/guard';
import pg from 'pg';

/** One connection of an application. */
export interface OwnConnection {
  /** For `heldUntilCommit`. */
  readonly query: SqlQuery;
  run(sql: string): Promise<readonly SqlRow[]>;
  /** Breaks the connection off, as the death of its process would. */
  cut(): void;
  close(): Promise<unknown>;
}

/** Opens a connection; its transactions are under way at the same time as those of others. */
export const openConnection: Readonly<Record<SqlDialect, (url: string) => Promise<OwnConnection>>> = {
  async postgres(url) {
    const client = new pg.Client(url);
    // Ends with its server, or when it is cut.
    client.on('error', () => {});
    await client.connect();
    // pg 9 is to refuse a query while another one of its client runs.
    let last: Promise<unknown> = Promise.resolve();
    const query = (sql: string, parameters?: unknown[]): Promise<pg.QueryResult<SqlRow>> => {
      const next = last.then(() => client.query<SqlRow>(sql, parameters));
      last = next.catch(() => undefined);
      return next;
    };
    return {
      query,
      run: async (sql) => (await query(sql)).rows,
      cut: () =>
        (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy(),
      close: () => client.end(),
    };
  },

  async mysql(url) {
    const connection = await mysql.createConnection(url);
    connection.on('error', () => {});
    return {
      query: async (sql, parameters) => (await connection.query<RowDataPacket[]>(sql, parameters))[0],
      run: async (sql) => {
        const [rows] = await connection.query(sql);
        return Array.isArray(rows) ? (rows as SqlRow[]) : [];
      },
      cut: () => connection.destroy(),
      close: () => connection.end(),
    };
  },
};
