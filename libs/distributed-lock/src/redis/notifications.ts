import { type Chance, type Clock, giveUpAfter } from '../common/clock.js';
import { ignoreFailure, inBackground } from '../common/promises.js';
import { conceal } from '../common/redaction.js';
import type { Notification } from '../port/lock-store.js';
import { RECHECK_MS } from '../port/timing.js';
import type { RedisClient } from './client.js';
import { notificationChannel } from './keys.js';

const MESSAGE = /^(\w+) ([0-9a-f-]{36}:\d+)(?: (.+))?$/s;
const CONTENDED = /^[1-9]\d{0,8}$/;
const TAKEOVER = /^([1-9]\d{0,10}) (.+)$/s;

/**
 * The store's connection for notifications: those to the owners of this client on a channel of its own, and Redisson's channel of
 * each key that a foreign client holds. On a cluster Redisson's clients publish to sharded channels if they can and to plain ones
 * otherwise, so the store subscribes to both there.
 *
 * A lost notification only delays. The next recheck or renewal finds what it said. As soon as the client is subscribed again, all
 * waiters recheck and all holders renew.
 */
export class RedisNotifications {
  /**
   * Random text that each acquire request carries and each notification for that waiter repeats. Any client may publish, but only
   * one that may read the locks knows the nonce and can forge a grant.
   */
  readonly nonce: string;
  /** Matches what follows the owner in a `granted` message, if the message repeats the nonce. */
  private readonly granted: RegExp;
  private readonly recheck: RegExp;
  private readonly ownChannel: string;
  /** Whether notifications can arrive. Waiters recheck more often while they cannot. */
  isSubscribed = false;
  private isClosed = false;
  private probedAt = -Infinity;
  /** Functions that cancel the deadlines of the commands that have no reply yet. */
  private readonly deadlines = new Set<() => void>();
  /** Our owner that waits behind a foreign client -> Redisson's channel for its key. */
  private readonly foreignChannels = new Map<string, string>();

  constructor(
    private readonly client: RedisClient,
    private readonly options: NotificationOptions,
    private readonly listener: Listener,
  ) {
    conceal(this, 'client');
    this.ownChannel = notificationChannel(options.clientId);
    this.nonce = options.chance.hex(8);
    this.granted = new RegExp(
      String.raw`^(\d{1,16}) (\d{1,16}) (\d{1,16}) (\d{1,9}) (\d{1,9}) ${this.nonce}$`,
    );
    this.recheck = new RegExp(String.raw`^(\d{1,5}) ${this.nonce}$`);
    client.on('error', () => undefined);
    client.on('ready', () => inBackground(this.subscribe(), this.onNotSubscribed));
    client.on('close', () => this.onClosed());
    client.on('message', (channel, message) => this.onMessage(channel, message));
    // A cluster client replaces its connections for sharded channels one by one, and subscribes on the new ones without saying when.
    // Messages until then are lost. So subscribe again: the reply shows that the subscription exists, and then waiters recheck.
    client.on('shardsReplaced', () => this.subscribeSharded(this.foreign));
    client.open();
  }

  /** From now on this owner rechecks when a message on this channel says that a foreign client has released its lock. */
  listenBehindForeignClient(channel: string, owner: string): void {
    if (this.foreignChannels.has(owner)) return;
    const isNew = this.ownersBehind(channel).length === 0;
    this.foreignChannels.set(owner, channel);
    if (isNew && this.isSubscribed) inBackground(this.subscribeTo([channel], owner), this.onNotSubscribed);
  }

  /**
   * Called when the owner no longer waits behind a foreign client. Unsubscribes from Redisson's channel if no other owner of ours needs
   * it, because the Lua scripts count each subscriber as a waiting client of Redisson. Notifications on our own channel go on.
   */
  stopListeningToForeignClients(owner: string): void {
    const channel = this.foreignChannels.get(owner);
    if (channel === undefined) return;
    this.foreignChannels.delete(owner);
    if (!this.isSubscribed || this.ownersBehind(channel).length > 0) return;
    this.client.unsubscribe(channel).catch(this.onNotSubscribed);
    if (this.client.isCluster) this.client.unsubscribeSharded(channel).catch(this.onNotSubscribed);
  }

  private get foreign(): readonly string[] {
    return [...new Set(this.foreignChannels.values())];
  }

  private ownersBehind(channel: string): readonly string[] {
    return [...this.foreignChannels.keys()].filter((owner) => this.foreignChannels.get(owner) === channel);
  }

  /** Pings the connection, at most once per `RECHECK_MS`. Nothing else is written on it, so nobody would notice that it is lost. */
  probe(): void {
    const now = this.options.clock.now();
    if (!this.isSubscribed || now - this.probedAt < RECHECK_MS) return;
    this.probedAt = now;
    const reply = this.client.pingSubscriber(this.ownChannel);
    ignoreFailure(this.inTime(reply));
  }

  async close(): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    this.cancelDeadlines();
    await this.client.close(this.options.commandTimeoutMs);
  }

  private async subscribe(): Promise<void> {
    const channels = [this.ownChannel, ...this.foreign];
    await this.subscribeTo(channels);
    if (!this.isSubscribed) return;
    // Unsubscribe from a channel that nobody has subscribed to: if the user lacks the right to UNSUBSCRIBE, that is reported now.
    this.client.unsubscribe(notificationChannel('rights')).catch(this.onNotSubscribed);
    // Other owners may have begun to wait behind a foreign client while the `SUBSCRIBE` was in flight: subscribe to their channels, too.
    const late = this.foreign.filter((channel) => !channels.includes(channel));
    if (late.length > 0) await this.subscribeTo(late);
  }

  private async subscribeTo(channels: readonly string[], owner?: string): Promise<void> {
    try {
      await this.inTime(this.client.subscribe(channels));
      const isFirst = !this.isSubscribed;
      this.isSubscribed = true;
      // Notifications from before the subscription are lost, so waiters recheck and holders renew.
      if (isFirst) this.listener.onNotification({ kind: 'gap' });
      else this.recheckNow(owner);
    } catch (error) {
      this.onNotSubscribed(error);
      // The server denied it, or the connection was lost again. Until the next subscription succeeds, waiters find their grants by
      // rechecks.
    }
    if (this.client.isCluster)
      this.subscribeSharded(this.foreign.filter((channel) => channels.includes(channel)));
  }

  /**
   * Subscribes to one channel at a time, because one command may only name channels of one slot. Servers before Redis 7 refuse it, and
   * there nobody publishes to sharded channels.
   */
  private subscribeSharded(channels: readonly string[]): void {
    for (const channel of channels) {
      const onSubscribed = () => this.ownersBehind(channel).forEach((owner) => this.recheckNow(owner));
      this.client.subscribeSharded(channel).then(onSubscribed, this.onNotSubscribed);
    }
  }

  /** Waits for a reply. If none comes within `commandTimeoutMs`, the connection is replaced. */
  private inTime<T>(reply: Promise<T>): Promise<T> {
    const { clock, commandTimeoutMs } = this.options;
    const cancel = giveUpAfter(clock, commandTimeoutMs, () => {
      this.deadlines.delete(cancel);
      this.client.drop();
    });
    this.deadlines.add(cancel);
    return reply.finally(() => {
      this.deadlines.delete(cancel);
      cancel();
    });
  }

  /** The connection is lost, and replies with it. Cancels their deadlines, because they would end the next connection. */
  private onClosed(): void {
    this.isSubscribed = false;
    this.cancelDeadlines();
  }

  private cancelDeadlines(): void {
    for (const cancel of this.deadlines) cancel();
    this.deadlines.clear();
  }

  private readonly onNotSubscribed = (error: unknown): void => this.listener.onNotSubscribed(error);

  /**
   * Makes this owner recheck now, or all waiters of this client if none is given. Used where no notification names a grant: a foreign
   * client has released, or messages before the subscription may be lost.
   */
  private recheckNow(owner?: string): void {
    this.listener.onNotification({ kind: 'recheck', afterMs: 0, ...(owner !== undefined && { owner }) });
  }

  private onMessage(channel: string, message: string): void {
    if (channel === this.ownChannel) return this.onOwnMessage(message);
    for (const owner of this.ownersBehind(channel)) this.recheckNow(owner);
  }

  /**
   * Handles a message on our own channel. Any client may publish, so a message that does not read exactly as our scripts write it
   * is ignored.
   */
  private onOwnMessage(message: string): void {
    const { listener } = this;
    const [, kind, owner = '', rest = ''] = MESSAGE.exec(message) ?? [];
    if (!owner.startsWith(this.options.clientId)) return;
    switch (kind) {
      case 'granted': {
        const [, ...numbers] = this.granted.exec(rest)?.map(Number) ?? [];
        const [token, lastToken = 0, grantedAt = 0, leaseMs = 0, waiting = 0] = numbers;
        if (token === undefined) return;
        const validUntil = listener.validityOf(grantedAt, leaseMs);
        this.stopListeningToForeignClients(owner);
        listener.onNotification({ kind, owner, token, lastToken, waiting, validUntil, confirmed: false });
        return;
      }
      case 'recheck': {
        const [, afterMs] = this.recheck.exec(rest) ?? [];
        if (afterMs) listener.onNotification({ kind, owner, afterMs: Number(afterMs) });
        return;
      }
      case 'contended':
        if (CONTENDED.test(rest)) listener.onNotification({ kind, owner, waiting: Number(rest) });
        return;
      case 'takeover': {
        const [, graceMs, by] = TAKEOVER.exec(rest) ?? [];
        if (graceMs && by) listener.onNotification({ kind, owner, graceMs: Number(graceMs), by });
        return;
      }
      case 'lost':
        if (rest === '') listener.onNotification({ kind, owner });
        return;
      case 'forced':
        if (rest !== '') listener.onNotification({ kind: 'lost', owner, by: rest });
    }
  }
}

interface NotificationOptions {
  readonly clientId: string;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly commandTimeoutMs: number;
}

interface Listener {
  /** Until when a grant is valid, by this process's clock. @param grantedAt server time in ms @param leaseMs length of its initial lease */
  validityOf(grantedAt: number, leaseMs: number): number;
  onNotification(notification: Notification): void;
  /** The server refused to subscribe or to unsubscribe. */
  onNotSubscribed(error: unknown): void;
}
