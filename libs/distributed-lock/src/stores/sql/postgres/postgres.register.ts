import { inBackground } from '../../../async/in-background.js';
import type { LockStoreContext } from '../../../port/lock-store.js';
import { keepAlive } from '../../common/keep-alive.js';
import type { Reading, Take, TakeReply } from '../../document/register.js';
import type { SqlDatabase } from '../sql-connection.js';
import { SqlRegister } from '../sql-register.js';
import { readingOf } from '../sql-row.js';
import { channelOf } from './statements/channel.js';
import { notifiedBy } from './notification.js';
import type { OwnTarget } from './own-client.js';
import { PostgresListener } from './postgres.listener.js';
import type { Listen } from './postgres.target.js';

/** Where notifications come from: a connection of this store's own, or a function. Without either it polls. */
export type NotificationSource = { readonly target: OwnTarget } | { readonly listen: Listen } | undefined;

interface Options extends LockStoreContext {
  readonly clientId: string;
  readonly commandTimeoutMs: number;
  readonly address?: string;
}

/** Documents in the rows of a PostgreSQL table, with the notifications of that server. */
export class PostgresRegister extends SqlRegister {
  private readonly channel: string;
  private readonly listening: { check?(): void; close(): void } | undefined;
  private readonly stopChecking: () => void;

  constructor(database: SqlDatabase, source: NotificationSource, options: Options) {
    super(database, options.commandTimeoutMs, options, options.address);
    this.channel = channelOf(options.clientId);
    this.listening = this.listenTo(source, options);
    if (!this.listening) this.poller.setActive(true);
    this.stopChecking = keepAlive(options.clock, () => this.listening?.check?.());
  }

  /** A waiter that rechecks has heard nothing for a while, perhaps because the connection for notifications is dead. */
  override take(take: Take): Promise<TakeReply> {
    if (take.request.ticket > 0) this.listening?.check?.();
    return super.take(take);
  }

  override async close(): Promise<void> {
    this.stopChecking();
    this.listening?.close();
    await super.close();
  }

  private listenTo(
    source: NotificationSource,
    { clock, commandTimeoutMs }: Options,
  ): { close(): void } | undefined {
    if (!source) return undefined;
    const { channel } = this;
    this.poller.setActive(true);
    if ('listen' in source) return this.listenBy(source.listen);
    return new PostgresListener(source.target, {
      clock,
      commandTimeoutMs,
      channel,
      probe: () => this.connection.run('ping', { name: channel }),
      onPayload: (payload) => this.onPayload(payload),
      onListening: (isListening) => this.onListening(isListening),
    });
  }

  private listenBy(listen: Listen): { close(): void } {
    const started = listen(this.channel, (payload) => this.onPayload(payload));
    inBackground(
      started.then(() => this.onListening(true)),
      () => undefined,
    );
    return {
      close: () =>
        inBackground(
          started.then((stop) => stop()),
          () => undefined,
        ),
    };
  }

  /** Notifications from before are lost. While none arrive, the store polls. */
  private onListening(isListening: boolean): void {
    this.poller.setActive(!isListening);
    if (isListening) this.listener?.onGap();
  }

  /** Any client may notify. What does not read exactly as a statement of ours writes it is ignored. */
  private onPayload(payload: string): void {
    const notified = notifiedBy(payload);
    if (!notified) return;
    const { name, row } = notified;
    if (!row) return inBackground(this.readNotified(name), () => undefined);
    let reading: Reading;
    try {
      reading = readingOf(name, row);
    } catch {
      return;
    }
    this.listener?.onReading(name, reading);
  }

  private async readNotified(name: string): Promise<void> {
    this.listener?.onReading(name, await this.read(name));
  }
}
