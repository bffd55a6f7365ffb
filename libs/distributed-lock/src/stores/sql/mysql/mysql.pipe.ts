import type { Connection, ResultSetHeader } from 'mysql2';
import { plain, type MysqlStatement } from './mysql.statements.js';

/** Sends statements in one packet. The server runs one after the other, and all replies come back together. */
export class MysqlPipe {
  constructor(private readonly connection: Connection) {}

  /**
   * @param together in one transaction
   * @throws the error of the first statement that fails. Those after it do not run
   */
  async run(statements: readonly MysqlStatement[], together = false): Promise<readonly MysqlReply[]> {
    if (!together) return this.send(statements);
    try {
      return (await this.send([plain('BEGIN'), ...statements, plain('COMMIT')])).slice(1, -1);
    } catch (error) {
      // The server has left the transaction open, with its locks, and the next BEGIN would commit it.
      await this.send([plain('ROLLBACK')]);
      throw error;
    }
  }

  destroy(): void {
    this.connection.destroy();
  }

  private send(statements: readonly MysqlStatement[]): Promise<readonly MysqlReply[]> {
    const sql = statements.map((statement) => statement.sql).join(';');
    const values = statements.flatMap(({ parameters }) => parameters);
    return new Promise((resolve, reject) => {
      this.connection.query({ sql, values }, (error, result) => {
        if (error) reject(withoutStatement(error));
        else resolve((statements.length === 1 ? [result] : (result as unknown[])).map(replyIn));
      });
    });
  }
}

export type MysqlRow = Readonly<Record<string, unknown>>;

/** The reply to one statement: how many rows it wrote, or the rows that it has read. */
export interface MysqlReply {
  readonly changed: number;
  readonly rows: readonly MysqlRow[];
}

function replyIn(result: unknown): MysqlReply {
  if (Array.isArray(result)) return { changed: 0, rows: result as readonly MysqlRow[] };
  return { changed: (result as ResultSetHeader).affectedRows, rows: [] };
}

/** Removes the statement from an error, because callers log the error as a `cause`. */
function withoutStatement(error: Error): Error {
  delete (error as { sql?: string }).sql;
  return error;
}
