import type { SqlQuery } from 'nestjs-distributed-lock/guard';
import type { ExecuteValues, Connection, ResultSetHeader, RowDataPacket } from 'mysql2/promise';
import type { ClientBase } from 'pg';

// Of a pool, or of the one client on which a transaction was begun.
export const pgQuery =
  (client: Pick<ClientBase, 'query'>): SqlQuery =>
  (sql, parameters) =>
    client.query(sql, parameters);

// mysql2 counts the rows that an update met, which is what is needed: leave its FOUND_ROWS flag on.
export const mysqlQuery =
  (connection: Pick<Connection, 'execute'>): SqlQuery =>
  async (sql, parameters) => {
    const values = parameters as ExecuteValues[];
    const [result] = await connection.execute<RowDataPacket[] | ResultSetHeader>(sql, values);
    return Array.isArray(result) ? result : { rows: [], changed: result.affectedRows };
  };
