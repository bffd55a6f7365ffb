import { LockConfigurationError } from '../../../port/lock.errors.js';
import type { Chance } from '../../../time/chance.js';
import type { Clock } from '../../../time/clock.js';
import type { SqlDatabase, SqlLink } from '../sql-connection.js';
import type { Failure } from '../sql-failure.js';
import { mysqlFailure } from './mysql.failures.js';
import type { Pipe, Row, StatementReply } from './mysql.pipe.js';
import { Preparation } from './mysql.preparation.js';
import { ANY_SESSION, type Statement } from './mysql.statements.js';
import { MysqlRequests } from './mysql.requests.js';

/** The rows of a query, or how many rows a write has written. */
export type MysqlAnswer =
  readonly Row[] | { readonly rows: readonly Row[]; readonly changed?: number | undefined };

/**
 * Runs one statement with `?` for each parameter, as `SqlQuery` of `/guard` does. Each statement may run on another
 * connection, and must be committed by itself. A write must reply with `changed`.
 */
export type MysqlQuery = (sql: string, parameters: unknown[]) => Promise<MysqlAnswer>;

/** A tool of yours that runs statements on connections of its own. */
export interface MysqlHandle {
  readonly query: MysqlQuery;
}

/** One statement after the other, each committed by itself. */
class QueryPipe implements Pipe {
  constructor(private readonly query: MysqlQuery) {}

  async run(statements: readonly Statement[]): Promise<readonly StatementReply[]> {
    const replies: StatementReply[] = [];
    for (const statement of statements) replies.push(await this.send(statement));
    return replies;
  }

  private async send({ sql, parameters }: Statement): Promise<StatementReply> {
    const answer = await this.query(sql, [...parameters]);
    const { rows = [], changed } = (Array.isArray(answer) ? { rows: answer } : (answer ?? {})) as {
      rows?: readonly Row[];
      changed?: number;
    };
    if (/\bUPDATE `/.test(sql) && typeof changed !== 'number') {
      throw new LockConfigurationError(
        'The query function of mysqlStore did not say how many rows an UPDATE has changed. It must reply with { rows, changed }.',
      );
    }
    return { rows, changed: changed ?? 0 };
  }
}

/** The sessions of a tool. Nothing is opened or closed. */
export class MysqlHandleDatabase implements SqlDatabase {
  readonly server = 'MySQL';

  /** An earlier statement of the request may have been committed before the one that failed. */
  failureOf(error: unknown): Failure {
    const failure = mysqlFailure(error);
    const isUnsure = failure.reason === 'unready' && !failure.mayRepeat;
    return isUnsure ? { ...failure, reason: 'unknown' } : failure;
  }

  constructor(
    private readonly handle: MysqlHandle,
    private readonly table: string,
    private readonly clock: Clock,
    private readonly chance: Chance,
  ) {}

  async open(): Promise<SqlLink> {
    const pipe = new QueryPipe((sql, parameters) => this.handle.query(sql, parameters));
    const { opened, statements } = await new Preparation(pipe, ANY_SESSION, this.table, this.clock).run();
    const requests = new MysqlRequests(pipe, statements, this.chance);
    return { opened, execute: (kind, items) => requests.execute(kind, items), destroy: () => undefined };
  }
}
