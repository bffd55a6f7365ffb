import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { Clock } from '../../lock/clock.js';
import { afterReading } from './after-reading.js';
import { conceal } from '../../lock/conceal.js';
import { inBackground } from '../../lock/in-background.js';
import type { Push } from '../../lock/lock-store.js';
import { LOOK_MS } from '../../lock/look.js';
import { closeClient, keepConnecting } from './redis.clients.js';
import type { Client } from './redis.command.js';
import { pushChannel } from './redis.keys.js';

/** A grant as the script wrote it; what it is worth by now is for the store to say. */
export interface PushedGrant {
  readonly owner: string;
  readonly token: number;
  readonly lastToken: number;
  /** Server time of the grant, in ms. */
  readonly grantedAt: number;
  /** Length of its first lease, in ms. */
  readonly leaseMs: number;
  readonly waiting: number;
}

interface Listener {
  onGrant(grant: PushedGrant): void;
  onPush(push: Push): void;
  /** The server refused to let it listen, or to stop. */
  onDeaf(error: unknown): void;
}

const OWNER = String.raw`([0-9a-f-]{36}:\d+)`;
const WANTED = new RegExp(`^wanted ${OWNER} ([1-9]\\d{0,8})$`);
const LOST = new RegExp(`^lost ${OWNER}$`);

/**
 * The store's own connection for messages: grants on a channel of this client, and Redisson's channel of those keys
 * that a stranger holds. On a cluster that channel is a sharded one wherever Redisson's clients find that they can, and
 * a plain one otherwise: there we listen to both.
 *
 * A message is only the fast way. Whatever is missed is found by the next look, and each time that the subscription
 * stands again, all that wait look at once.
 */
export class RedisPushes {
  /**
   * Goes with each ask and comes back in what is pushed for it. Anybody may publish, but only who may read the locks
   * can grant one by a forged message.
   */
  readonly word = randomBytes(8).toString('hex');
  private readonly granted = new RegExp(
    String.raw`^granted ${OWNER} (\d{1,16}) (\d{1,16}) (\d{1,16}) (\d{1,9}) (\d{1,9}) ${this.word}$`,
  );
  private readonly look = new RegExp(String.raw`^look ${OWNER} (\d{1,5}) ${this.word}$`);
  private subscribed = false;
  private readonly stopConnecting: () => void;
  private isClosed = false;
  private probedAt = -Infinity;
  private cancelProbe: (() => void) | undefined;
  /** Redisson's channel -> the owners of ours that wait behind a stranger. */
  private readonly strangers = new Map<string, Set<string>>();
  /** The same by owner. */
  private readonly channels = new Map<string, string>();

  constructor(
    private readonly client: Client,
    private readonly clientId: string,
    private readonly clock: Clock,
    private readonly commandTimeoutMs: number,
    private readonly listener: Listener,
  ) {
    conceal(this, 'client');
    client.on('error', () => undefined);
    client.on('ready', () => inBackground(this.subscribe(), this.onDeaf));
    client.on('close', () => (this.subscribed = false));
    client.on('message', (channel: string, message: string) => this.onMessage(channel, message));
    client.on('smessage', (channel: string, message: string) => this.onMessage(channel, message));
    // A cluster client replaces its connections for sharded channels one by one, and subscribes on them unseen.
    client.on('subscribersReady', () => this.subscribeSharded([...this.strangers.keys()]));
    this.stopConnecting = keepConnecting(client, clock, () => undefined);
  }

  /** Whether grants can arrive. Waiters look more often while they cannot. */
  get isUp(): boolean {
    return this.subscribed;
  }

  /** From now on this owner looks when a stranger frees the lock of this channel. */
  listenBehindStranger(channel: string, owner: string): void {
    this.channels.set(owner, channel);
    const owners = this.strangers.get(channel);
    if (owners) {
      owners.add(owner);
      return;
    }
    this.strangers.set(channel, new Set([owner]));
    if (this.subscribed) inBackground(this.subscribeTo([channel], owner), this.onDeaf);
  }

  /** No stranger is in its way any more. Whoever goes on listening passes for a stranger that waits. */
  stopListening(owner: string): void {
    const channel = this.channels.get(owner);
    if (channel === undefined) return;
    this.channels.delete(owner);
    const owners = this.strangers.get(channel);
    owners?.delete(owner);
    if (owners?.size !== 0) return;
    this.strangers.delete(channel);
    if (!this.subscribed) return;
    this.client.unsubscribe(channel).catch(this.onDeaf);
    if (this.client.isCluster) this.client.sunsubscribe(channel).catch(this.onDeaf);
  }

  /**
   * A connection that died silently says nothing, and nothing is written on it: whoever waits asks it, once per look
   * at most. A cluster client cares for its own.
   */
  probe(): void {
    const now = this.clock.now();
    if (this.client.isCluster || !this.subscribed || now - this.probedAt < LOOK_MS) return;
    this.probedAt = now;
    const { stream } = this.client as Redis;
    this.cancelProbe?.();
    const cancel = (this.cancelProbe = afterReading(this.clock, this.commandTimeoutMs, () =>
      stream.destroy(),
    ));
    this.client.ping().then(cancel, cancel);
  }

  async close(): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    this.stopConnecting();
    this.cancelProbe?.();
    await closeClient(this.client, this.clock, this.commandTimeoutMs);
  }

  private async subscribe(): Promise<void> {
    const channels = [pushChannel(this.clientId), ...this.strangers.keys()];
    await this.subscribeTo(channels);
    // Whether it may be left: nobody listens there.
    if (this.subscribed) this.client.unsubscribe(pushChannel('rights')).catch(this.onDeaf);
    // Some may have come to wait behind a stranger while this one was under way.
    const late = [...this.strangers.keys()].filter((channel) => !channels.includes(channel));
    if (this.subscribed && late.length > 0) await this.subscribeTo(late);
  }

  private async subscribeTo(channels: readonly string[], owner?: string): Promise<void> {
    try {
      await this.client.subscribe(...channels);
      this.subscribed = true;
      this.onSubscribed(owner);
    } catch (error) {
      this.onDeaf(error);
      // Denied, or the connection is gone again: until the next one, waiters find their grants by looking.
    }
    if (this.client.isCluster)
      this.subscribeSharded(channels.filter((channel) => this.strangers.has(channel)));
  }

  /** One by one: a command may name channels of one slot only. Before Redis 7 it is refused, and not missed. */
  private subscribeSharded(channels: readonly string[]): void {
    for (const channel of channels) {
      const onSubscribed = () => this.strangers.get(channel)?.forEach((owner) => this.onSubscribed(owner));
      this.client.ssubscribe(channel).then(onSubscribed, this.onDeaf);
    }
  }

  private readonly onDeaf = (error: unknown): void => this.listener.onDeaf(error);

  /** What happened before could not be heard. */
  private onSubscribed(owner?: string): void {
    this.listener.onPush({ kind: 'look', afterMs: 0, ...(owner !== undefined && { owner }) });
  }

  private onMessage(channel: string, message: string): void {
    if (channel === pushChannel(this.clientId)) return this.onOwnMessage(message);
    for (const owner of this.strangers.get(channel) ?? [])
      this.listener.onPush({ kind: 'look', owner, afterMs: 0 });
  }

  /** Anybody may publish: what does not read exactly as our scripts write it is ignored. */
  private onOwnMessage(message: string): void {
    const { granted, look } = this;
    const [, owner = '', ...numbers] =
      granted.exec(message) ?? WANTED.exec(message) ?? LOST.exec(message) ?? look.exec(message) ?? [];
    if (!owner.startsWith(this.clientId)) return;
    const [first = 0, last = 0, grantedAt = 0, leaseMs = 0, waiting = 0] = numbers.map(Number);
    switch (message.slice(0, message.indexOf(' '))) {
      case 'granted':
        return this.listener.onGrant({ owner, token: first, lastToken: last, grantedAt, leaseMs, waiting });
      case 'wanted':
        return this.listener.onPush({ kind: 'wanted', owner, waiting: first });
      case 'look':
        return this.listener.onPush({ kind: 'look', owner, afterMs: first });
      default:
        return this.listener.onPush({ kind: 'lost', owner });
    }
  }
}
