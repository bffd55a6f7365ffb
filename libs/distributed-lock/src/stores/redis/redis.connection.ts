import type { Cluster, Redis } from 'ioredis';
import type { Clock } from '../../lock/clock.js';
import { afterReading } from './after-reading.js';
import { asStoreError, describe, unknown, unreachable } from './redis.errors.js';
import { ServerClock } from './server-clock.js';
import { writeTogether } from './write-together.js';

export type Client = Redis | Cluster;

/** On a new connection what gives up goes first, then what keeps, then what asks (docs/decisions/0003, P16). */
export type Urgency = 'end' | 'renew' | 'ask';
const ORDER: readonly Urgency[] = ['end', 'renew', 'ask'];

export interface Answer<T> {
  readonly value: T;
  /** When the command was written, on the clock of the store. */
  readonly sentAt: number;
}

interface Attempt {
  readonly urgency: Urgency;
  readonly key: string | undefined;
  /** When it was written, or asked for until then. */
  since: number;
  write(client: Client): void;
  fail(error: Error): void;
}

/**
 * The store's own connection for commands.
 *
 * A connection that has answered nothing for `commandTimeoutMs` while a command is under way may be stuck: it is given
 * up and replaced, and all that it carried fails with it. Commands are answered in order, so answers to others are
 * progress: many commands at once may each take longer than one alone.
 */
export class RedisConnection {
  readonly serverClock = new ServerClock();
  /** How Redisson's clients of this deployment speak: on a cluster from Redis 7 on, through sharded channels. */
  publish: 'PUBLISH' | 'SPUBLISH' = 'PUBLISH';
  /** Counts the connections that have followed each other. */
  generation = 0;
  private readonly inFlight = new Set<Attempt>();
  private readonly waiting = new Set<Attempt>();
  private isReady = false;
  private isClosed = false;
  private answeredAt = 0;
  private cancelDeadline: (() => void) | undefined;
  private lastError: Error | undefined;
  private cancelMeasuring: (() => void) | undefined;

  constructor(
    private readonly client: Client,
    private readonly clock: Clock,
    readonly commandTimeoutMs: number,
  ) {
    client.on('error', (error: Error) => (this.lastError = error));
    client.on('ready', () => void this.onReady());
    client.on('close', () => this.onLost('the connection was closed'));
    client.on('end', () => this.onLost('the connection was closed'));
    client.connect().catch((error: Error) => (this.lastError = error));
  }

  /** @throws LockStoreError: `unreachable` if it was never written, otherwise by the answer or `unknown` */
  run<T>(
    urgency: Urgency,
    key: string | undefined,
    command: (client: Client) => Promise<T>,
  ): Promise<Answer<T>> {
    return new Promise((resolve, reject) => {
      const settle = (outcome: () => void) => {
        this.inFlight.delete(attempt);
        this.waiting.delete(attempt);
        outcome();
      };
      const attempt: Attempt = {
        urgency,
        key,
        since: this.clock.now(),
        write: (client) => {
          const sentAt = (attempt.since = this.clock.now());
          this.inFlight.add(attempt);
          if (!client.isCluster) writeTogether((client as Redis).stream);
          command(client).then(
            (value) => {
              this.answeredAt = this.clock.now();
              settle(() => resolve({ value, sentAt }));
            },
            (error: unknown) => settle(() => reject(asStoreError(error, key))),
          );
        },
        fail: (error) => settle(() => reject(error)),
      };
      if (this.isClosed) return attempt.fail(unreachable('the store is closed', key));
      if (this.isReady && this.client.status === 'ready') attempt.write(this.client);
      else this.waiting.add(attempt);
      if (!this.cancelDeadline) this.armDeadline(this.commandTimeoutMs);
    });
  }

  /** Rejects what is under way. Leaves no socket and no timer, whatever the server does. */
  async close(): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    this.cancelDeadline?.();
    this.onLost('the store is closed');
    for (const attempt of this.waiting) attempt.fail(unreachable('the store is closed', attempt.key));
    await closeClient(this.client, this.clock, this.commandTimeoutMs);
  }

  private async onReady(): Promise<void> {
    try {
      await this.measureTime();
      if (this.client.isCluster) await this.probeSharded();
    } catch (error) {
      this.lastError = error as Error;
      return this.drop();
    }
    if (this.isClosed) return;
    this.generation += 1;
    this.isReady = true;
    this.lastError = undefined;
    const attempts = [...this.waiting];
    this.waiting.clear();
    for (const urgency of ORDER) {
      for (const attempt of attempts) if (attempt.urgency === urgency) attempt.write(this.client);
    }
  }

  /** Before the first command: each of them says in server time until when it may be executed. */
  private async measureTime(): Promise<void> {
    const sentAt = this.clock.now();
    this.cancelMeasuring = afterReading(this.clock, this.commandTimeoutMs, () => this.drop());
    try {
      const [seconds, micros] = await this.client.time();
      const receivedAt = this.clock.now();
      this.serverClock.learn(Number(seconds) * 1000 + Math.floor(Number(micros) / 1000), sentAt, receivedAt);
      this.serverClock.roundTripMs = receivedAt - sentAt;
    } finally {
      this.cancelMeasuring();
    }
  }

  /** The probe that Redisson makes. */
  private async probeSharded(): Promise<void> {
    const hasSharded = await this.client.call('PUBSUB', 'SHARDNUMSUB').then(
      () => true,
      () => false,
    );
    this.publish = hasSharded ? 'SPUBLISH' : 'PUBLISH';
  }

  /** One timer for all commands: it looks at the oldest, and comes back when that one is due. */
  private onDeadline(): void {
    this.cancelDeadline = undefined;
    const now = this.clock.now();
    for (const attempt of this.waiting) if (this.dueAt(attempt, 0) <= now) this.onNoConnection(attempt);
    const [oldest] = this.inFlight;
    // A cluster has many connections: an answer of one says nothing about the others.
    const answeredAt = this.client.isCluster ? 0 : this.answeredAt;
    if (oldest && this.dueAt(oldest, answeredAt) <= now) this.onNoAnswer(oldest);
    const [next] = this.inFlight;
    const [first] = this.waiting;
    const due = Math.min(
      next ? this.dueAt(next, answeredAt) : Infinity,
      first ? this.dueAt(first, 0) : Infinity,
    );
    if (due === Infinity) return;
    this.armDeadline(Math.max(1, Math.ceil(due - now)));
  }

  private armDeadline(ms: number): void {
    this.cancelDeadline = afterReading(this.clock, ms, () => this.onDeadline());
  }

  /** Counted from its sending, or from the last answer to another command: as long as answers come, it is its turn soon. */
  private dueAt({ since }: Attempt, answeredAt: number): number {
    return Math.max(since, answeredAt) + this.commandTimeoutMs;
  }

  private onNoConnection(attempt: Attempt): void {
    const last = this.lastError ? ` (last error: ${describe(this.lastError)})` : '';
    const why = `no connection within ${this.commandTimeoutMs} ms${last}`;
    attempt.fail(unreachable(why, attempt.key, this.lastError));
  }

  private onNoAnswer(attempt: Attempt): void {
    attempt.fail(unknown(`nothing came back within ${this.commandTimeoutMs} ms`, attempt.key));
    this.drop();
  }

  private onLost(why: string): void {
    this.isReady = false;
    // An answer that is lost with its connection never comes: its deadline must not meet the next one.
    this.cancelMeasuring?.();
    for (const attempt of this.inFlight) attempt.fail(unknown(why, attempt.key, this.lastError));
  }

  /** A cluster client replaces a silent node by itself (`socketTimeout`). */
  private drop(): void {
    if (this.client.isCluster) return;
    this.isReady = false;
    (this.client as Redis).stream?.destroy();
  }
}

/** Says good-bye if anybody listens, and then makes sure. */
export async function closeClient(client: Client, clock: Clock, withinMs: number): Promise<void> {
  if (client.status === 'ready') {
    await new Promise<void>((resolve) => {
      const settle = (): void => {
        cancel();
        resolve();
      };
      const cancel = clock.after(withinMs, settle);
      // A connection that goes down now leaves the answer out.
      client.once('close', settle);
      client.quit().then(settle, settle);
    });
  }
  if (client.status === 'end') return;
  client.disconnect();
  if (!client.isCluster) (client as Redis).stream?.destroy();
}
