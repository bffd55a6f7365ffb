import type { Client } from 'pg';
import { inBackground } from '../../../async-context/in-background.js';
import { conceal } from '../../../redaction/conceal.js';
import type { Chance } from '../../../time/chance.js';
import type { Clock } from '../../../time/clock.js';
import { Delays } from '../../../time/delays.js';
import { within } from '../../../time/within.js';
import { connectWithinMs } from '../../common/connection/keep-alive.js';
import { KeptConnection } from '../../common/connection/kept-connection.js';
import { connectOwn, destroy, type OwnTarget } from './own-client.js';

/** Switches off the idle timeout of a session on which notifications have arrived. A pooler would not have delivered them, so no other client shares the session. */
const STAY = `
SELECT set_config('idle_session_timeout', '0', false) WHERE current_setting('server_version_num')::int >= 140000`;

/**
 * The store's connection for notifications.
 *
 * A pooler that gives each transaction another connection takes LISTEN and delivers nothing, silently. So the store
 * notifies itself over its other connection first. If that does not arrive the listener gives up, and the store polls.
 */
export class PostgresListener {
  private readonly delays: Delays;
  private readonly kept: KeptConnection<Listening>;
  /** The connection that listens, while no statement of its own is in flight. */
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

  /** Finds out whether the connection still exists, since nothing is written on it otherwise. */
  check(): void {
    const { idle } = this;
    if (!idle) return;
    this.idle = undefined;
    this.orLose(
      idle,
      this.ask(idle).then(() => {
        if (this.kept.current === idle) this.idle = idle;
      }),
    );
  }

  close(): void {
    this.kept.close();
    this.delays.endAll();
  }

  private open(signal: AbortSignal, onLost: (error: unknown) => void): Promise<Listening> {
    return connectOwn(this.target, { signal, onLost }, async (client) => {
      client.on('notification', ({ payload = '' }) =>
        payload === '' ? this.onProbe() : this.options.onPayload(payload),
      );
      await client.query(`LISTEN ${this.options.channel}`);
      return { client, destroy: () => destroy(client) };
    });
  }

  private async probe(connection: Listening): Promise<void> {
    const { options } = this;
    const arrived = new Promise<boolean>((resolve) => (this.onProbe = () => resolve(true)));
    await options.probe(options.channel);
    const silent = this.delays.wait(options.commandTimeoutMs).then(() => false);
    const arrives = await Promise.race([arrived, silent]);
    if (arrives) await connection.client.query(STAY);
    // A dead connection makes `ask` throw, and is replaced. One that replies only brings no notifications.
    else await this.ask(connection);
    if (this.kept.current !== connection) return;
    if (!arrives) return this.close();
    this.idle = connection;
    options.onListening(true);
  }

  /** @throws when no reply comes in time */
  private async ask({ client }: Listening): Promise<void> {
    const { clock, commandTimeoutMs } = this.options;
    const reply = await within(clock, commandTimeoutMs, client.query('SELECT 1'), 'late');
    if (reply === 'late') throw new Error('no reply in time');
  }

  private orLose(connection: Listening, work: Promise<void>): void {
    inBackground(work, (error) => this.kept.lose(connection, error));
  }
}

interface ListenerOptions {
  readonly clock: Clock;
  readonly chance: Chance;
  readonly commandTimeoutMs: number;
  readonly channel: string;
  /** Notifies the channel over the other connection of this store. */
  probe(channel: string): Promise<unknown>;
  onPayload(payload: string): void;
  /** Whether notifications arrive from now on. Before the first call they do not. */
  onListening(isListening: boolean): void;
}

interface Listening {
  readonly client: Client;
  destroy(): void;
}
