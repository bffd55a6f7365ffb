import type { Client } from 'pg';
import { Delays, within } from '../common/clock.js';
import { ignoreFailure, inBackground } from '../common/promises.js';
import { conceal } from '../common/redaction.js';
import { KeptConnection } from '../connection/kept-connection.js';
import { connectWithinMs } from '../connection/timing.js';
import type { Reading } from '../document/document.js';
import type { Take, WriteReply } from '../document/timed-register.js';
import { readingOf, type SqlDatabase } from '../sql/database.js';
import { SqlRegister } from '../sql/register.js';
import type { SqlContext } from '../sql/store.js';
import { channelOf, notifiedBy } from './statements.js';
import { connectOwn, type Listen, type OwnTarget } from './target.js';

/** Stores documents as rows of a PostgreSQL table. The server notifies clients of changes by LISTEN and NOTIFY. */
export class PostgresRegister extends SqlRegister {
  readonly attempted = this.connection.attempted;
  private readonly listening: { check?(): void; close(): void } | undefined;

  constructor(
    private readonly database: SqlDatabase & { readonly location: string },
    /** Where notifications come from: a connection of the store's own, or a function. Without a source the store polls. */
    source: OwnTarget | Listen | undefined,
    context: SqlContext,
  ) {
    super(database, context);
    conceal(this, 'database');
    const channel = channelOf(context.clientId);
    if (typeof source === 'function') this.listening = this.listenBy(source, channel);
    else this.listening = source && this.listenTo(source, channel);
  }

  /** Includes the schema of the table as soon as the server has told it: tables in two schemas are two separate sets of locks. */
  override get address(): string {
    const table = `table ${this.database.location}`;
    return super.address === undefined ? table : `${super.address}, ${table}`;
  }

  /** A take with a ticket is a recheck: its waiter has got no notification for a while, so this also checks that connection. */
  override take(take: Take): Promise<WriteReply> {
    if (take.request.ticket !== 0) this.listening?.check?.();
    return super.take(take);
  }

  override async close(): Promise<void> {
    this.listening?.close();
    await super.close();
  }

  protected override checkConnections(): void {
    super.checkConnections();
    this.listening?.check?.();
  }

  private listenTo(source: OwnTarget, channel: string): PostgresListener {
    return new PostgresListener(source, {
      ...this.options,
      channel,
      probe: () => this.connection.runAlone((link) => link.ping(channel)),
      onPayload: (payload) => this.onPayload(payload),
      onListening: (isListening) => this.onListening(isListening),
    });
  }

  private listenBy(listen: Listen, channel: string): { close(): void } {
    const started = listen(channel, (payload) => this.onPayload(payload));
    ignoreFailure(started.then(() => this.onListening(true)));
    return { close: () => ignoreFailure(started.then((stop) => stop())) };
  }

  /** Polls as long as no notifications arrive. When they begin to arrive, waiters recheck, because earlier ones are lost. */
  private onListening(isListening: boolean): void {
    this.poller.setActive(!isListening);
    if (isListening) this.listener?.onGap();
  }

  /**
   * Passes on the document in a notification. Any client of the database may send one, so this ignores payloads that our
   * statements would not send.
   */
  private onPayload(payload: string): void {
    const notified = notifiedBy(payload);
    if (!notified) return;
    const { name, row } = notified;
    if (!row) {
      const told = this.read(name).then((reading) => this.listener?.onReading(name, reading));
      return ignoreFailure(told);
    }
    let reading: Reading;
    try {
      reading = readingOf(name, row);
    } catch {
      return;
    }
    this.listener?.onReading(name, reading);
  }
}

/** Switches off the session's idle timeout. Sent only if notifications arrive: then no pooler gives this session to other clients. */
const STAY = `
SELECT set_config('idle_session_timeout', '0', false) WHERE current_setting('server_version_num')::int >= 140000`;

/**
 * The store's connection for notifications.
 *
 * A pooler that gives each transaction another connection accepts LISTEN, and then silently delivers nothing. So the store first
 * sends itself a notification over its other connection. If that does not arrive, this class gives up for good, and the store
 * polls.
 */
class PostgresListener {
  private readonly delays: Delays;
  private readonly kept: KeptConnection<Listening>;
  /** The connection that listens. `undefined` while a statement of ours is in flight on it. */
  private idle: Listening | undefined;
  private onProbe = (): void => undefined;

  constructor(
    private readonly target: OwnTarget,
    private readonly options: ListenerOptions,
  ) {
    conceal(this, 'target', 'kept', 'idle');
    this.delays = new Delays(options.clock);
    const withinMs = connectWithinMs(options.commandTimeoutMs);
    this.kept = new KeptConnection({
      ...options,
      attempt: () => ({
        withinMs,
        lateError: new Error(`no connection for notifications within ${withinMs} ms`),
        open: (signal, onLost) => this.open(signal, onLost),
      }),
      onOpen: (connection) => this.orLose(connection, this.probe(connection)),
      onDown: () => {
        this.idle = undefined;
        options.onListening(false);
      },
    });
    this.kept.start();
  }

  /** Sends a statement on this connection, because nothing else is sent on it: otherwise nobody would notice that it is dead. */
  check(): void {
    const { idle } = this;
    if (!idle) return;
    this.idle = undefined;
    const asked = this.ask(idle).then(() => {
      if (this.kept.current === idle) this.idle = idle;
    });
    this.orLose(idle, asked);
  }

  close(): void {
    this.kept.close();
    this.delays.endAll();
  }

  private open(signal: AbortSignal, onLost: (error: unknown) => void): Promise<Listening> {
    return connectOwn(this.target, { signal, onLost }, async (client, destroy) => {
      client.on('notification', ({ payload = '' }) =>
        payload === '' ? this.onProbe() : this.options.onPayload(payload),
      );
      await client.query(`LISTEN ${this.options.channel}`);
      return { client, destroy };
    });
  }

  private async probe(connection: Listening): Promise<void> {
    const { options } = this;
    const arrived = new Promise<boolean>((resolve) => (this.onProbe = () => resolve(true)));
    await options.probe();
    const silent = this.delays.wait(options.commandTimeoutMs).then(() => false);
    const arrives = await Promise.race([arrived, silent]);
    if (arrives) await connection.client.query(STAY);
    // No notification has arrived. If the connection is dead, `ask` throws, and the connection is replaced. If it is alive, there
    // is probably a pooler in between.
    else await this.ask(connection);
    if (this.kept.current !== connection) return;
    if (!arrives) return this.close();
    this.idle = connection;
    options.onListening(true);
  }

  /** Sends a statement. @throws if no reply comes in time, because the connection is dead */
  private async ask({ client }: Listening): Promise<void> {
    const { clock, commandTimeoutMs } = this.options;
    const reply = await within(clock, commandTimeoutMs, client.query('SELECT 1'));
    if (reply === 'late') throw new Error('no reply in time');
  }

  private orLose(connection: Listening, work: Promise<void>): void {
    inBackground(work, (error) => this.kept.lose(connection, error));
  }
}

interface ListenerOptions extends Pick<SqlContext, 'clock' | 'chance' | 'commandTimeoutMs'> {
  readonly channel: string;
  /** Sends a notification to the channel over the store's other connection. */
  probe(): Promise<void>;
  onPayload(payload: string): void;
  /** Called with `true` when notifications begin to arrive, and with `false` when they stop. */
  onListening(isListening: boolean): void;
}

interface Listening {
  readonly client: Client;
  destroy(): void;
}
