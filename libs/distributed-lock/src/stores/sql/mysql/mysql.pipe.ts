import type { Connection, ResultSetHeader } from 'mysql2';
import type { Statement } from './mysql.statements.js';

export type Row = Readonly<Record<string, unknown>>;

/** The reply to one statement: how many rows it wrote, or the rows that it has read. */
export interface StatementReply {
  readonly changed: number;
  readonly rows: readonly Row[];
}

/** Runs statements one after the other. Rejects with the error of the first that fails, and does not run the others. */
export interface Pipe {
  /** @param together where the session can, in one transaction */
  run(statements: readonly Statement[], together?: boolean): Promise<readonly StatementReply[]>;
}

const BEGIN: Statement = { sql: 'BEGIN', parameters: [] };
const COMMIT: Statement = { sql: 'COMMIT', parameters: [] };

/** A connection of our own: all statements go in one packet, and all replies come back together. */
export class PacketPipe implements Pipe {
  constructor(private readonly connection: Connection) {}

  async run(statements: readonly Statement[], together = false): Promise<readonly StatementReply[]> {
    if (!together) return this.send(statements);
    try {
      return (await this.send([BEGIN, ...statements, COMMIT])).slice(1, -1);
    } catch (error) {
      // The transaction is still open, with its locks, and the next BEGIN would commit it.
      await this.send([{ sql: 'ROLLBACK', parameters: [] }]);
      throw error;
    }
  }

  private send(statements: readonly Statement[]): Promise<readonly StatementReply[]> {
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

function replyIn(result: unknown): StatementReply {
  if (Array.isArray(result)) return { changed: 0, rows: result as readonly Row[] };
  return { changed: (result as ResultSetHeader).affectedRows, rows: [] };
}

/** The error becomes the `cause` of what callers log. */
function withoutStatement(error: Error): Error {
  delete (error as { sql?: string }).sql;
  return error;
}
