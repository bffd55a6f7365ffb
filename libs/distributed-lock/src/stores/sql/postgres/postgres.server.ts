import type { Client, QueryConfig } from 'pg';
import { conceal } from '../../../redaction/conceal.js';
import type { SqlLink } from '../sql-database.js';
import { connectOwn, destroy, type OwnTarget } from './own-client.js';
import { PostgresDatabase, type DatabaseOptions, type Query } from './postgres.database.js';
import { sqlStateOf } from './postgres.errors.js';
import { executeBy, type PostgresRow, type Send } from './postgres.session.js';

/** The codes for a connection of a pooler on which the statement is not prepared, or another client has prepared it. */
const NOT_PREPARED = ['26000', '42P05'];

/** A server, over a connection of this store's own. */
export class PostgresServer extends PostgresDatabase {
  constructor(
    private readonly target: OwnTarget,
    options: DatabaseOptions,
  ) {
    super(options);
    conceal(this, 'target');
  }

  open(signal: AbortSignal, onLost: (error: unknown) => void): Promise<SqlLink> {
    return connectOwn(this.target, { signal, onLost }, (client) => this.linkOf(client));
  }

  private async linkOf(client: Client): Promise<SqlLink> {
    const query: Query = async (text, values) => (await client.query(text, values)).rows as object[];
    const hello = await this.greet(query);
    // Behind a pooler the process id of the server differs from the one that the client was told.
    let isDirect = Number(hello.pid) === (client as Client & { processID: number }).processID;
    if (isDirect) await this.setUp(query, Number(hello.server));
    else await this.checkUnlocked(query);
    const rowsOf = ({ rows }: { readonly rows: readonly PostgresRow[] }) => rows;
    const execute = (config: QueryConfig) => client.query<PostgresRow>(config).then(rowsOf);
    const send: Send = ({ name, text }, values) => {
      if (!isDirect) return execute({ text, values });
      return client.query<PostgresRow>({ name, text, values }).then(rowsOf, (error) => {
        if (!NOT_PREPARED.includes(sqlStateOf(error) ?? '')) throw error;
        isDirect = false;
        return execute({ text, values });
      });
    };
    return {
      ...executeBy(send, this.statements),
      opened: { now: Number(hello.now) / 1000, sentAt: hello.sentAt },
      destroy: () => destroy(client),
    };
  }

  /** Sets the session up for locks. A pooler would give a session with these settings to other clients, so it is not called there. */
  private async setUp(query: Query, server: number): Promise<void> {
    const settings = {
      statement_timeout: this.options.commandTimeoutMs,
      lock_timeout: this.lockTimeoutMs,
      default_transaction_isolation: 'read committed',
      ...(server >= 140000 && { idle_session_timeout: 0 }),
      // A plan for each execution takes longer than the statement, and one for a small table is wrong for a large one.
      plan_cache_mode: 'force_generic_plan',
      enable_seqscan: 'off',
      jit: 'off',
    };
    const set = Object.keys(settings).map((name, i) => `set_config('${name}', $${i + 1}, false)`);
    await query(`SELECT ${set.join(', ')}`, Object.values(settings).map(String));
  }
}
