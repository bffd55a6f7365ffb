import type { Client } from 'pg';
import { inBackground } from '../../../async-context/in-background.js';
import { conceal } from '../../../redaction/conceal.js';
import { afterReading } from '../../../time/turns.js';
import type { Chance } from '../../../time/chance.js';
import type { Clock } from '../../../time/clock.js';
import { Delays } from '../../../time/delays.js';
import { reconnectDelay } from '../../common/connection/reconnect-delay.js';
import { connectOwn, destroy, type OwnTarget } from './own-client.js';

interface Options {
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

/** For a session on which notifications arrive, and which therefore is nobody else's: it is idle for long. */
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
  private readonly closing = new AbortController();
  private client: Client | undefined;
  /** It listens, and no statement of its own is in flight. */
  private isIdle = false;
  private onProbe = (): void => undefined;

  constructor(
    private readonly target: OwnTarget,
    private readonly options: Options,
  ) {
    conceal(this, 'target', 'client');
    this.delays = new Delays(options.clock);
    inBackground(this.run(), () => undefined);
  }

  /** Finds out whether the connection still exists, since nothing is written on it otherwise. */
  check(): void {
    const { client } = this;
    if (!client || !this.isIdle) return;
    const { clock, commandTimeoutMs } = this.options;
    this.isIdle = false;
    const cancel = afterReading(clock, commandTimeoutMs, () => destroy(client));
    // An error is a reply as well. A connection that is lost says so by itself.
    const onReply = () => {
      cancel();
      this.isIdle = this.client === client;
    };
    client.query('SELECT 1').then(onReply, onReply);
  }

  close(): void {
    this.closing.abort();
    this.delays.endAll();
    if (this.client) destroy(this.client);
  }

  private async run(): Promise<void> {
    for (let failures = 0; !this.closing.signal.aborted; failures++) {
      const outcome = await this.listen();
      if (outcome === 'silent') return;
      if (outcome === 'lost') failures = 0;
      if (!this.closing.signal.aborted) await this.delays.wait(reconnectDelay(this.options.chance, failures));
    }
  }

  /** @returns how it ended: without a connection, after notifications had arrived, or without any */
  private async listen(): Promise<'failed' | 'lost' | 'silent'> {
    const { options } = this;
    const opening = new AbortController();
    const cancel = afterReading(options.clock, Math.max(options.commandTimeoutMs, 100) * 2, () =>
      opening.abort(),
    );
    let onLost = (): void => undefined;
    const lost = new Promise<'lost'>((resolve) => (onLost = () => resolve('lost')));
    const signal = AbortSignal.any([opening.signal, this.closing.signal]);
    let client: Client | undefined;
    try {
      client = await connectOwn(this.target, signal, onLost);
      this.client = client;
      client.on('notification', ({ payload = '' }) =>
        payload === '' ? this.onProbe() : options.onPayload(payload),
      );
      await client.query(`LISTEN ${options.channel}`);
      cancel();
      const arrives = await Promise.race([this.arrives(client), lost]);
      if (arrives === false) return 'silent';
      if (arrives === 'lost') return 'failed';
      await client.query(STAY);
      this.isIdle = true;
      options.onListening(true);
      return await lost;
    } catch {
      return 'failed';
    } finally {
      cancel();
      this.client = undefined;
      this.isIdle = false;
      options.onListening(false);
      if (client) destroy(client);
    }
  }

  /** @throws when it cannot be found out now */
  private async arrives(client: Client): Promise<boolean> {
    const { options } = this;
    const arrived = new Promise<boolean>((resolve) => (this.onProbe = () => resolve(true)));
    await options.probe(options.channel);
    const silent = this.delays.wait(options.commandTimeoutMs).then(() => false);
    if (await Promise.race([arrived, silent])) return true;
    // Only a connection that still replies is silent.
    const cancel = afterReading(options.clock, options.commandTimeoutMs, () => destroy(client));
    try {
      await client.query('SELECT 1');
    } finally {
      cancel();
    }
    return false;
  }
}
