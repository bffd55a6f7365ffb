import { EventEmitter } from 'node:events';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { systemChance } from '../common/clock.js';
import type { Notification } from '../port/lock-store.js';
import { ManualClock } from '../testing/manual-clock.js';
import type { RedisClient } from './client.js';
import { RedisNotifications } from './notifications.js';

const CLIENT_ID = '0b1f0b1f-ae50-84e8-a984-fea8d272dba3';
const OWNER = `${CLIENT_ID}:1`;
const FOREIGN_CHANNEL = 'redisson_lock__channel:{goods:42}';
const COMMAND_TIMEOUT_MS = 100;

/** A connection whose replies the test gives. */
class Line extends EventEmitter {
  readonly isCluster = false;
  readonly subscribed: string[] = [];
  readonly unsubscribed: string[] = [];
  drops = 0;
  private replies: (() => void)[] = [];

  open(): void {}

  subscribe(channels: readonly string[]): Promise<void> {
    this.subscribed.push(...channels);
    return new Promise((resolve) => this.replies.push(resolve));
  }

  async unsubscribe(channel: string): Promise<void> {
    this.unsubscribed.push(channel);
  }

  pingSubscriber(): Promise<void> {
    return new Promise((resolve) => this.replies.push(resolve));
  }

  drop(): void {
    this.drops += 1;
  }

  async close(): Promise<void> {}

  /** The server answers all that was sent. */
  answer(): void {
    for (const reply of this.replies.splice(0)) reply();
  }

  /** The connection is lost, and the replies with it; the client opens the next one. */
  reopen(): void {
    this.replies = [];
    this.emit('close');
    this.emit('ready');
  }
}

describe('the subscriptions of a client of Redis', () => {
  let clock: ManualClock;
  let line: Line;
  let told: Notification[];
  let notifications: RedisNotifications;

  beforeEach(async () => {
    clock = new ManualClock();
    line = new Line();
    told = [];
    notifications = new RedisNotifications(
      line as unknown as RedisClient,
      { clientId: CLIENT_ID, clock, chance: systemChance, commandTimeoutMs: COMMAND_TIMEOUT_MS },
      {
        validityOf: () => Infinity,
        onNotification: (notification) => told.push(notification),
        onNotSubscribed: () => undefined,
      },
    );
    line.emit('ready');
    await clock.settle();
  });

  const answer = async (): Promise<void> => {
    line.answer();
    await clock.settle();
  };

  it('are given up with a connection that does not answer in time', async () => {
    await clock.advance(COMMAND_TIMEOUT_MS);
    expect(line.drops).toBe(1);
    expect(notifications.isSubscribed).toBe(false);
  });

  it('have their whole time on the next connection, whatever was unanswered on the one before', async () => {
    await clock.advance(COMMAND_TIMEOUT_MS - 1);
    line.reopen();
    await clock.advance(COMMAND_TIMEOUT_MS - 1);
    expect(line.drops).toBe(0);
    await answer();
    await clock.advance(COMMAND_TIMEOUT_MS);
    expect(line.drops).toBe(0);
    expect(notifications.isSubscribed).toBe(true);
  });

  it('make all waiters recheck and all holders renew, each time that they exist again', async () => {
    await answer();
    line.reopen();
    await answer();
    expect(told).toEqual([{ kind: 'gap' }, { kind: 'gap' }]);
  });

  it('include the channels behind which owners began to wait while the first one was under way', async () => {
    notifications.listenBehindForeignClient(FOREIGN_CHANNEL, OWNER);
    expect(line.subscribed).not.toContain(FOREIGN_CHANNEL);
    await answer();
    expect(line.subscribed).toContain(FOREIGN_CHANNEL);
    await answer();
    told = [];
    line.emit('message', FOREIGN_CHANNEL, '0');
    expect(told).toEqual([{ kind: 'recheck', owner: OWNER, afterMs: 0 }]);
  });

  it('end on the channel of a key as soon as none of its owners waits behind a foreign client', async () => {
    await answer();
    const other = `${CLIENT_ID}:2`;
    for (const owner of [OWNER, other]) notifications.listenBehindForeignClient(FOREIGN_CHANNEL, owner);
    await answer();
    line.emit(
      'message',
      `nest_lock_notify:${CLIENT_ID}`,
      `granted ${OWNER} 7 7 0 1000 0 ${notifications.nonce}`,
    );
    expect(line.unsubscribed).not.toContain(FOREIGN_CHANNEL);
    notifications.stopListeningToForeignClients(other);
    expect(line.unsubscribed).toContain(FOREIGN_CHANNEL);
  });
});
