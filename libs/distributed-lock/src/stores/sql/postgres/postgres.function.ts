import { conceal } from '../../../redaction/conceal.js';
import type { SqlFailure, SqlLink } from '../sql-database.js';
import { PostgresDatabase, type DatabaseOptions, type Query } from './postgres.database.js';
import { executeBy, type PostgresRow, type Send } from './postgres.session.js';
import { isPGlite, type PGliteDatabase, type PostgresHandle } from './postgres.target.js';

/** A database in this process, or behind a function of the application, which owns its sessions and their settings. */
export class PostgresFunction extends PostgresDatabase {
  constructor(
    private readonly handle: PGliteDatabase | PostgresHandle,
    options: DatabaseOptions,
  ) {
    super(options);
    conceal(this, 'handle');
  }

  async open(): Promise<SqlLink> {
    const query: Query = async (sql, parameters) => {
      const answer = await this.handle.query(sql, parameters);
      return (Array.isArray(answer) ? answer : (answer as { rows: object[] }).rows) as object[];
    };
    const hello = await this.greet(query);
    if (!isPGlite(this.handle)) await this.checkUnlocked(query);
    const send: Send = async ({ text }, values) => (await query(text, values)) as PostgresRow[];
    return {
      ...executeBy(send, this.statements, { mayRepeat: isPGlite(this.handle) }),
      opened: { now: Number(hello.now) / 1000, sentAt: hello.sentAt },
      destroy: () => undefined,
    };
  }

  override failureOf(error: unknown): SqlFailure {
    const failure = super.failureOf(error);
    if (failure.reason !== 'unknown' || isPGlite(this.handle)) return failure;
    const hint =
      'Where the query function takes connections from the pool of the application, callers that keep them while they wait for a lock leave none for it: give postgresStore the URL instead';
    return { ...failure, detail: `${failure.detail}. ${hint}` };
  }
}
