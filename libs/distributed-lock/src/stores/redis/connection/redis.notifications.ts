import type { Clock } from '../../../time/clock.js';
import { giveUpAfter } from '../../../time/turns.js';
import { conceal } from '../../../redaction/conceal.js';
import { inBackground } from '../../../async-context/in-background.js';
import type { Notification } from '../../../port/lock-store.js';
import { RECHECK_MS } from '../../../port/recheck-interval.js';
import type { RedisClient } from '../redis.client.js';
import { notificationChannel } from '../redis.keys.js';
import type { Chance } from '../../../time/chance.js';

const OWNER = String.raw`([0-9a-f-]{36}:\d+)`;
const CONTENDED = new RegExp(`^contended ${OWNER} ([1-9]\\d{0,8})$`);
const LOST = new RegExp(`^lost ${OWNER}$`);
const FORCED = new RegExp(`^forced ${OWNER} (.+)$`, 's');
const TAKEOVER = new RegExp(`^takeover ${OWNER} ([1-9]\\d{0,10}) (.+)$`, 's');

/**
 * The store's connection for notifications: those to the owners of this client on a channel of its own, and Redisson's channel of
 * each key that a foreign client holds. On a cluster Redisson's clients publish to sharded channels if they can and to plain ones
 * otherwise, so the store subscribes to both there.
 *
 * A lost notification only delays. The next recheck finds what it said, and all waiters recheck at once when the client is
 * subscribed again.
 */
export class RedisNotifications {
  /**
   * Each acquire request carries it, and each notification for that waiter repeats it. Any client may publish, but only one
   * that may read the locks can forge a grant.
   */
  readonly nonce: string;
  private readonly granted: RegExp;
  private readonly recheck: RegExp;
  /** Whether notifications can arrive. Waiters recheck more often while they cannot. */
  isSubscribed = false;
  private isClosed = false;
  private probedAt = -Infinity;
  /** Functions that cancel the deadlines of the commands that have no reply yet. */
  private readonly deadlines = new Set<() => void>();
  /** Redisson's channel -> our owners that wait behind a foreign client. */
  private readonly foreignChannels = new Map<string, Set<string>>();
  /** Our owner that waits behind a foreign client -> its channel of Redisson. */
  private readonly channels = new Map<string, string>();

  constructor(
    private readonly client: RedisClient,
    private readonly clientId: string,
    private readonly clock: Clock,
    chance: Chance,
    private readonly commandTimeoutMs: number,
    private readonly listener: Listener,
  ) {
    conceal(this, 'client');
    this.nonce = chance.hex(8);
    this.granted = new RegExp(
      String.raw`^granted ${OWNER} (\d{1,16}) (\d{1,16}) (\d{1,16}) (\d{1,9}) (\d{1,9}) ${this.nonce}$`,
    );
    this.recheck = new RegExp(String.raw`^recheck ${OWNER} (\d{1,5}) ${this.nonce}$`);
    client.on('error', () => undefined);
    client.on('ready', () => inBackground(this.subscribe(), this.onNotSubscribed));
    client.on('close', () => this.onClosed());
    client.on('message', (channel, message) => this.onMessage(channel, message));
    // A cluster client replaces its connections for sharded channels one by one, and subscribes on the new ones without an event.
    client.on('shardsReplaced', () => this.subscribeSharded([...this.foreignChannels.keys()]));
    client.open(() => undefined);
  }

  /** From now on this owner rechecks when a foreign client releases the lock of this channel. */
  listenBehindForeignClient(channel: string, owner: string): void {
    this.channels.set(owner, channel);
    const owners = this.foreignChannels.get(channel);
    if (owners) {
      owners.add(owner);
      return;
    }
    this.foreignChannels.set(channel, new Set([owner]));
    if (this.isSubscribed) inBackground(this.subscribeTo([channel], owner), this.onNotSubscribed);
  }

  /**
   * The owner waits behind no foreign client now; its own notifications go on. An open subscription looks to the scripts like
   * a waiting Redisson client.
   */
  stopListeningToForeignClients(owner: string): void {
    const channel = this.channels.get(owner);
    if (channel === undefined) return;
    this.channels.delete(owner);
    const owners = this.foreignChannels.get(channel);
    owners?.delete(owner);
    if (owners?.size !== 0) return;
    this.foreignChannels.delete(channel);
    if (!this.isSubscribed) return;
    this.client.unsubscribe(channel).catch(this.onNotSubscribed);
    if (this.client.isCluster) this.client.unsubscribeSharded(channel).catch(this.onNotSubscribed);
  }

  /** Finds out whether the connection still exists, since nothing is written on it otherwise. At most once per `RECHECK_MS`. */
  probe(): void {
    const now = this.clock.now();
    if (!this.isSubscribed || now - this.probedAt < RECHECK_MS) return;
    this.probedAt = now;
    const reply = this.client.pingSubscriber(notificationChannel(this.clientId));
    inBackground(this.inTime(reply), () => undefined);
  }

  async close(): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    this.cancelDeadlines();
    await this.client.close(this.commandTimeoutMs);
  }

  private async subscribe(): Promise<void> {
    const channels = [notificationChannel(this.clientId), ...this.foreignChannels.keys()];
    await this.subscribeTo(channels);
    // Finds out whether the user may unsubscribe, on a channel that nobody has subscribed to.
    if (this.isSubscribed) this.client.unsubscribe(notificationChannel('rights')).catch(this.onNotSubscribed);
    // Owners may have come to wait behind a foreign client while this was under way.
    const subscribed = new Set(channels);
    const late = [...this.foreignChannels.keys()].filter((channel) => !subscribed.has(channel));
    if (this.isSubscribed && late.length > 0) await this.subscribeTo(late);
  }

  private async subscribeTo(channels: readonly string[], owner?: string): Promise<void> {
    try {
      await this.inTime(this.client.subscribe(channels));
      this.isSubscribed = true;
      this.onSubscribed(owner);
    } catch (error) {
      this.onNotSubscribed(error);
      // The server has denied it, or the connection is lost again. Until the next one, waiters find their grants by rechecks.
    }
    if (this.client.isCluster)
      this.subscribeSharded(channels.filter((channel) => this.foreignChannels.has(channel)));
  }

  /** One by one, because a command may name channels of one slot only. Servers before Redis 7 refuse it and do not need it. */
  private subscribeSharded(channels: readonly string[]): void {
    for (const channel of channels) {
      const onSubscribed = () =>
        this.foreignChannels.get(channel)?.forEach((owner) => this.onSubscribed(owner));
      this.client.subscribeSharded(channel).then(onSubscribed, this.onNotSubscribed);
    }
  }

  /** A connection that does not answer in time is replaced. */
  private inTime<T>(reply: Promise<T>): Promise<T> {
    const cancel = giveUpAfter(this.clock, this.commandTimeoutMs, () => {
      this.deadlines.delete(cancel);
      this.client.drop();
    });
    this.deadlines.add(cancel);
    return reply.finally(() => {
      this.deadlines.delete(cancel);
      cancel();
    });
  }

  /** Replies that are lost with their connection never come: their deadlines must not end the next connection. */
  private onClosed(): void {
    this.isSubscribed = false;
    this.cancelDeadlines();
  }

  private cancelDeadlines(): void {
    for (const cancel of this.deadlines) cancel();
    this.deadlines.clear();
  }

  private readonly onNotSubscribed = (error: unknown): void => this.listener.onNotSubscribed(error);

  /** Notifications from before the subscription are lost. */
  private onSubscribed(owner?: string): void {
    this.listener.onNotification({ kind: 'recheck', afterMs: 0, ...(owner !== undefined && { owner }) });
  }

  private onMessage(channel: string, message: string): void {
    if (channel === notificationChannel(this.clientId)) return this.onOwnMessage(message);
    for (const owner of this.foreignChannels.get(channel) ?? [])
      this.listener.onNotification({ kind: 'recheck', owner, afterMs: 0 });
  }

  /** Any client may publish: a message that does not read exactly as our scripts write it is ignored. */
  private onOwnMessage(message: string): void {
    const { granted, recheck } = this;
    const [, holder = '', graceMs, by = ''] = TAKEOVER.exec(message) ?? [];
    if (holder.startsWith(this.clientId))
      return this.listener.onNotification({ kind: 'takeover', owner: holder, graceMs: Number(graceMs), by });
    const [, loser = '', forcedBy = ''] = FORCED.exec(message) ?? [];
    if (loser.startsWith(this.clientId))
      return this.listener.onNotification({ kind: 'lost', owner: loser, by: forcedBy });
    const [, owner = '', ...numbers] =
      granted.exec(message) ?? CONTENDED.exec(message) ?? LOST.exec(message) ?? recheck.exec(message) ?? [];
    if (!owner.startsWith(this.clientId)) return;
    const [first = 0, ...others] = numbers.map(Number);
    switch (message.slice(0, message.indexOf(' '))) {
      case 'granted': {
        const [lastToken = 0, grantedAt = 0, leaseMs = 0, waiting = 0] = others;
        return this.listener.onGrant({ owner, token: first, lastToken, grantedAt, leaseMs, waiting });
      }
      case 'contended':
        return this.listener.onNotification({ kind: 'contended', owner, waiting: first });
      case 'recheck':
        return this.listener.onNotification({ kind: 'recheck', owner, afterMs: first });
      case 'lost':
        return this.listener.onNotification({ kind: 'lost', owner });
    }
  }
}

/** A grant as the script wrote it. The store decides how long it is valid now. */
export interface NotifiedGrant {
  readonly owner: string;
  readonly token: number;
  readonly lastToken: number;
  /** Server time of the grant, in ms. */
  readonly grantedAt: number;
  /** Length of its initial lease, in ms. */
  readonly leaseMs: number;
  readonly waiting: number;
}

/** Implemented by `RedisLocks`. */
interface Listener {
  onGrant(grant: NotifiedGrant): void;
  onNotification(notification: Notification): void;
  /** The server refused to subscribe or to unsubscribe. */
  onNotSubscribed(error: unknown): void;
}
