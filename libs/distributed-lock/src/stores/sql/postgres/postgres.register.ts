import { inBackground } from '../../../async-context/in-background.js';
import type { Chance } from '../../../time/chance.js';
import { conceal } from '../../../redaction/conceal.js';
import type { Reading } from '../../core/document.js';
import type { Take, WriteReply } from '../../core/register.js';
import type { SqlDatabase } from '../sql-database.js';
import { SqlRegister, type SqlRegisterOptions } from '../sql-register.js';
import { readingOf } from '../sql-row.js';
import { channelOf, notifiedBy } from './statements/notifications.js';
import type { OwnTarget } from './own-client.js';
import { PostgresListener } from './postgres.listener.js';
import type { Listen } from './postgres.target.js';

/** Documents in the rows of a PostgreSQL table, with the notifications of that server. */
export class PostgresRegister extends SqlRegister {
  readonly attempted: Promise<void>;
  private readonly channel: string;
  private readonly listening: { check?(): void; close(): void } | undefined;

  constructor(
    /** `location`: the lock table, with its schema once that is known. */
    private readonly database: SqlDatabase & { readonly location: string },
    source: NotificationSource | undefined,
    options: PostgresRegisterOptions,
  ) {
    super(database, options);
    conceal(this, 'database');
    this.attempted = this.connection.attempted;
    this.channel = channelOf(options.clientId);
    this.listening = source && this.listenTo(source, options);
  }

  /** The address names the schema of the table once it is known, because two schemas are two sets of locks. */
  override get address(): string {
    const table = `table ${this.database.location}`;
    return super.address === undefined ? table : `${super.address}, ${table}`;
  }

  /** Checks the connection for notifications, because a waiter that rechecks has had none for a while. */
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

  private listenTo(
    source: NotificationSource,
    { clock, chance, commandTimeoutMs }: PostgresRegisterOptions,
  ): { close(): void } {
    const { channel } = this;
    if (typeof source === 'function') return this.listenBy(source);
    return new PostgresListener(source, {
      clock,
      chance,
      commandTimeoutMs,
      channel,
      probe: () => this.connection.runAlone((link) => link.ping(channel)),
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

  /** Any client may notify, so a payload that no statement of ours would write is ignored. */
  private onPayload(payload: string): void {
    const notified = notifiedBy(payload);
    if (!notified) return;
    const { name } = notified;
    if (!('row' in notified)) {
      const told = this.read(name).then((reading) => this.listener?.onReading(name, reading));
      return inBackground(told, () => undefined);
    }
    let reading: Reading;
    try {
      reading = readingOf(name, notified.row);
    } catch {
      return;
    }
    this.listener?.onReading(name, reading);
  }
}

/** Where notifications come from: a connection of this store's own, or a function. */
export type NotificationSource = OwnTarget | Listen;

interface PostgresRegisterOptions extends SqlRegisterOptions {
  readonly chance: Chance;
  readonly clientId: string;
}
