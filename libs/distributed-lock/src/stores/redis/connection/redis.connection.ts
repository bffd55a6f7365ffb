import type { Cluster, Redis } from 'ioredis';
import type { Writable } from 'node:stream';
import { leadOf, type Clock } from '../../../time/clock.js';
import { conceal } from '../../../printing/conceal.js';
import { LinkedQueue, Link } from '../../../collections/linked-queue.js';
import { inBackground } from '../../../async/in-background.js';
import type { LockStoreError } from '../../../port/lock.errors.js';
import { afterReading } from '../../../time/after-reading.js';
import { closeClient, keepConnecting } from './redis.clients.js';
import { EXPIRED, type Client, type Command, type Priority } from './redis.command.js';
import {
  asStoreError,
  asUnsure,
  describe,
  forgetArguments,
  isAnswer,
  unknown,
  unreachable,
} from './redis.errors.js';
import { isDenied, type AccessRights } from './access-rights.js';
import { loadScripts } from '../scripts/scripts.js';
import { ServerClock } from './server-clock.js';
import { writeNow, writeTogether } from './write-together.js';

const ORDER: readonly Priority[] = ['release', 'renew', 'acquire'];
/** More at once would be answered later than they may be executed; the others are written as answers come. */
const MOST_IN_FLIGHT = 2000;
/** A connection that has been silent for so long may have been forgotten by the network. */
const IDLE_MS = 500;

const PING: Command = {
  urgency: 'renew',
  key: undefined,
  send: (client) => (client.isCluster ? pingAll(client as Cluster) : client.ping()),
  read: () => undefined,
};

class Attempt extends Link {
  wasLate = false;
  /** An idle connection has swallowed it. A first copy that was never answered may still be executed. */
  isSecondCopy = false;
  /** When this copy was written. */
  sentAt = 0;
  /** How far the time of day was ahead of the clock then. */
  sentLead = 0;

  constructor(
    readonly command: Command,
    /** From when its deadline counts: when its first copy was written, or when it was asked for until then. */
    public since: number,
    readonly resolve: (result: unknown) => void,
    readonly reject: (error: Error) => void,
  ) {
    super();
  }
}

/**
 * The store's own connection for commands.
 *
 * A connection that has answered nothing for `commandTimeoutMs` while a command is under way may be stuck: it is given
 * up and replaced, and all that it carried fails with it. A deadline counts from the last answer to any command: as long
 * as answers come, it is the turn of each soon.
 *
 * Load balancers and firewalls forget a connection that was idle, and tell nobody. A command that is written on one has
 * half of its time for the first answer. After that the connection is replaced, and the command is asked once more on
 * the new one. A deadline then counts from the handshake of the new connection.
 */
export class RedisConnection {
  readonly serverClock = new ServerClock();
  /** How Redisson's clients of this deployment speak: on a cluster from Redis 7 on, through sharded channels. */
  publish: 'PUBLISH' | 'SPUBLISH' = 'PUBLISH';
  /** Counts the connections that have followed each other. */
  generation = 0;
  private readonly inFlight = new LinkedQueue<Attempt>();
  private readonly waiting = {
    release: new LinkedQueue<Attempt>(),
    renew: new LinkedQueue<Attempt>(),
    acquire: new LinkedQueue<Attempt>(),
  };
  private isReady = false;
  private isClosed = false;
  private answeredAt = 0;
  /** It had been idle when the oldest command under way was written, and nothing has come back since. */
  private isInDoubt = false;
  /** Its nodes were given up for that, on a cluster. */
  private areNodesDropped = false;
  private cancelDeadline: (() => void) | undefined;
  private lastError: Error | undefined;
  private readonly stopConnecting: () => void;
  private cancelPreparing: (() => void) | undefined;

  /** What is asked for now is written now. */
  get isUp(): boolean {
    return this.isReady;
  }

  constructor(
    private readonly client: Client,
    private readonly clock: Clock,
    readonly commandTimeoutMs: number,
    private readonly rights: AccessRights,
  ) {
    conceal(this, 'client');
    client.on('error', (error: Error) => (this.lastError = error));
    client.on('ready', () => inBackground(this.onReady(), (error) => this.onUnready(error)));
    client.on('close', () => this.onLost('the connection was closed'));
    client.on('end', () => this.onLost('the connection was closed'));
    this.stopConnecting = keepConnecting(client, clock, (error) => (this.lastError = error));
  }

  /** @throws LockStoreError: `unreachable` if it was never written, otherwise by the answer or `unknown` */
  run<Value, Result>(command: Command<Value, Result>): Promise<Result> {
    return new Promise((resolve, reject) => {
      const settle = resolve as (result: unknown) => void;
      const attempt = new Attempt(command as unknown as Command, this.clock.now(), settle, reject);
      this.waiting[command.urgency].push(attempt);
      if (this.isClosed) return this.fail(attempt, unreachable('the store is closed', command.key));
      this.writeWaiting();
      if (!this.cancelDeadline) this.armDeadline(this.commandTimeoutMs);
    });
  }

  /** Asks a connection that has been idle whether it is still there; without an answer it is replaced. */
  checkIdle(): void {
    // A cluster has many connections: an answer of one says nothing about the others.
    const isBusy = this.inFlight.size > 0 || this.clock.now() - this.answeredAt < IDLE_MS;
    if (!this.isReady || (isBusy && !this.client.isCluster)) return;
    inBackground(this.run(PING), () => undefined);
  }

  /** Rejects what is under way. Leaves no socket and no timer, whatever the server does. */
  async close(): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    this.stopConnecting();
    this.cancelDeadline?.();
    this.onLost('the store is closed');
    for (const attempt of this.allWaiting())
      this.fail(attempt, unreachable('the store is closed', attempt.command.key));
    await closeClient(this.client, this.clock, this.commandTimeoutMs);
  }

  private async onReady(): Promise<void> {
    const cancel = afterReading(this.clock, this.commandTimeoutMs, () => this.drop());
    this.cancelPreparing = cancel;
    try {
      const checked = this.checkRights();
      await Promise.all([checked, this.measureTime(), this.probeSharded(), loadScripts(this.client)]);
    } finally {
      cancel();
    }
    if (this.isClosed) return;
    this.generation += 1;
    this.isReady = true;
    this.onHeard();
    this.lastError = undefined;
    this.writeWaiting();
  }

  private onUnready(error: unknown): void {
    this.lastError = error as Error;
    this.drop();
  }

  private writeWaiting(): void {
    const { release, renew, acquire } = this.waiting;
    if (release.size + renew.size + acquire.size === 0) return;
    if (!this.isReady || this.client.status !== 'ready') return;
    for (const urgency of ORDER) {
      const waiting = this.waiting[urgency];
      while (waiting.size > 0) {
        if (this.inFlight.size >= MOST_IN_FLIGHT) return;
        this.write(waiting.shift() as Attempt);
      }
    }
  }

  private write(attempt: Attempt): void {
    const { command } = attempt;
    attempt.sentLead = leadOf(this.clock);
    attempt.sentAt = this.clock.now();
    if (!attempt.isSecondCopy) attempt.since = attempt.sentAt;
    if (this.inFlight.size === 0 && attempt.sentAt - this.answeredAt > IDLE_MS) this.doubt();
    this.inFlight.push(attempt);
    const stream = this.streamFor(command);
    if (stream) writeTogether(stream);
    this.follow(attempt, this.send(command, attempt));
    if (stream && command.isPressing) writeNow(stream);
  }

  /** Where a command may wait for others to leave with; not if its caller waits, and the server for it. */
  private streamFor({ isAwaited }: Command): Writable | undefined {
    if (this.client.isCluster || (isAwaited && this.inFlight.size === 1)) return undefined;
    return (this.client as Redis).stream;
  }

  private send(command: Command, attempt: Attempt): Promise<unknown> {
    if (command.urgency === 'acquire' && this.rights.areLacking) return this.ifAllowed(attempt);
    try {
      return command.send(this.client);
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  /** What becomes of a copy that has been given up concerns nobody. */
  private follow(attempt: Attempt, answer: Promise<unknown>): void {
    const { isSecondCopy } = attempt;
    const isLatest = () => isSecondCopy === attempt.isSecondCopy;
    answer.then(
      (value) => {
        if (isLatest()) this.onAnswer(attempt, value);
      },
      (error: unknown) => {
        if (isLatest()) this.onRefused(attempt, error);
      },
    );
  }

  private doubt(): void {
    this.isInDoubt = true;
    this.areNodesDropped = false;
    this.cancelDeadline?.();
    this.armDeadline(this.commandTimeoutMs / 2);
  }

  private onHeard(): void {
    this.answeredAt = this.clock.now();
    this.isInDoubt = false;
  }

  private onAnswer(attempt: Attempt, value: unknown): void {
    this.onHeard();
    if (this.settle(attempt)) {
      try {
        this.serverClock.replyLead = attempt.sentLead;
        const result = attempt.command.read(value, attempt.sentAt);
        if (result === EXPIRED) this.onLate(attempt);
        else attempt.resolve(result);
      } catch (error) {
        attempt.reject(error as Error);
      }
    }
    this.writeWaiting();
  }

  private onLate(attempt: Attempt): void {
    const { urgency, key } = attempt.command;
    this.waiting[urgency].push(attempt);
    if (attempt.wasLate)
      this.fail(attempt, unknown('it found two requests in a row too late, by its own clock', key));
    attempt.wasLate = true;
  }

  private onRefused(attempt: Attempt, error: unknown): void {
    forgetArguments(error);
    if (isAnswer(error)) this.onHeard();
    const { command } = attempt;
    const again = this.inFlight.has(attempt) && command.sendAgain?.(this.client, error);
    if (again) return this.follow(attempt, again);
    this.explain(command, error).then(
      (explained) => this.fail(attempt, explained),
      () => this.fail(attempt, asStoreError(error, command.key)),
    );
  }

  private async explain(command: Command, error: unknown): Promise<LockStoreError> {
    const refusal = isDenied(error) && (await this.rights.refusalFor(this.client, command.key, error));
    return refusal || (await command.explain?.(this.client, error)) || asStoreError(error, command.key);
  }

  private fail(attempt: Attempt, error: LockStoreError): void {
    if (this.settle(attempt)) {
      const failure = attempt.isSecondCopy ? asUnsure(error) : error;
      attempt.command.onFailed?.(failure);
      attempt.reject(failure);
    }
    this.writeWaiting();
  }

  /** @returns whether it was still open */
  private settle(attempt: Attempt): boolean {
    return this.inFlight.remove(attempt) || this.waiting[attempt.command.urgency].remove(attempt);
  }

  private allWaiting(): Attempt[] {
    return ORDER.flatMap((urgency) => [...this.waiting[urgency]]);
  }

  /** Written ahead of TIME and answered with it, in one write. A cluster has another node answer: nobody waits for that. */
  private async checkRights(): Promise<void> {
    if (!this.client.isCluster) writeTogether((this.client as Redis).stream);
    const checked = this.rights.check(this.client);
    if (!this.client.isCluster) await checked;
  }

  /** Something was missing before: it may have been added by now. */
  private async ifAllowed(attempt: Attempt): Promise<unknown> {
    const { command } = attempt;
    const refusal = await this.rights.refusalFor(this.client, command.key);
    if (refusal) throw refusal;
    // Given up meanwhile: its owner may have ended, and nothing would undo what is written now.
    if (!this.inFlight.has(attempt)) throw unreachable('it was given up before it was written', command.key);
    return command.send(this.client);
  }

  /** Before the first command: each of them says in server time until when it may be executed. */
  private async measureTime(): Promise<void> {
    const sentLead = leadOf(this.clock);
    const sentAt = this.clock.now();
    try {
      const [seconds, micros] = await this.client.time();
      const receivedAt = this.clock.now();
      this.serverClock.replyLead = sentLead;
      this.serverClock.learn(Number(seconds) * 1000 + Math.floor(Number(micros) / 1000), sentAt, receivedAt);
      this.serverClock.roundTripMs = receivedAt - sentAt;
    } catch (error) {
      // Then nobody is given a lock, and whoever asks is told why.
      if (!isDenied(error)) throw error;
    }
  }

  /** The probe that Redisson makes. */
  private async probeSharded(): Promise<void> {
    if (!this.client.isCluster) return;
    const hasSharded = await this.client.call('PUBSUB', 'SHARDNUMSUB').then(
      () => true,
      () => false,
    );
    this.publish = hasSharded ? 'SPUBLISH' : 'PUBLISH';
  }

  /**
   * One timer for all commands: it looks at those that are due, and comes back for the next.
   *
   * @param now when it was over: what was sent in a long turn since then had no chance of an answer
   */
  private onDeadline(now: number): void {
    this.cancelDeadline = undefined;
    // A cluster has many connections: an answer of one says nothing about the others.
    const answeredAt = this.client.isCluster ? 0 : this.answeredAt;
    const dueAt = (attempt: Attempt) => Math.max(attempt.since, answeredAt) + this.timeoutOf(attempt);
    for (const attempt of this.allWaiting()) if (dueAt(attempt) <= now) this.onNoConnection(attempt);
    for (const attempt of this.inFlight) if (dueAt(attempt) <= now) this.onNoAnswer(attempt);
    let next = Infinity;
    for (const attempt of this.allWaiting()) next = Math.min(next, dueAt(attempt));
    for (const attempt of this.inFlight) next = Math.min(next, dueAt(attempt));
    if (next < Infinity) this.armDeadline(Math.max(1, Math.ceil(next - this.clock.now())));
  }

  /** Half of it where the connection may have been forgotten, so that the other half is left for a new one. */
  private timeoutOf(attempt: Attempt): number {
    const isFirstHalf = this.mayAskAgain(attempt) && !this.areNodesDropped;
    return isFirstHalf ? this.commandTimeoutMs / 2 : this.commandTimeoutMs;
  }

  private mayAskAgain(attempt: Attempt): boolean {
    if (!this.isInDoubt || attempt.isSecondCopy || !attempt.command.isRepeatable) return false;
    return !this.isClosed && this.inFlight.has(attempt);
  }

  private askAgain(attempt: Attempt): void {
    this.inFlight.remove(attempt);
    attempt.isSecondCopy = true;
    this.waiting[attempt.command.urgency].push(attempt);
  }

  private armDeadline(ms: number): void {
    this.cancelDeadline = afterReading(this.clock, ms, (overAt) => this.onDeadline(overAt));
  }

  private onNoConnection(attempt: Attempt): void {
    const last = this.lastError ? ` (last error: ${describe(this.lastError)})` : '';
    const why = `no connection within ${this.commandTimeoutMs} ms${last}`;
    this.fail(attempt, unreachable(why, attempt.command.key, this.lastError));
  }

  private onNoAnswer(attempt: Attempt): void {
    const why = `nothing came back within ${this.commandTimeoutMs} ms`;
    const isLast = this.timeoutOf(attempt) === this.commandTimeoutMs;
    if (isLast) this.fail(attempt, unknown(why, attempt.command.key));
    this.drop();
  }

  private onLost(why: string): void {
    this.isReady = false;
    // An answer that is lost with its connection never comes: its deadline must not meet the next one.
    this.cancelPreparing?.();
    for (const attempt of this.inFlight) {
      if (this.mayAskAgain(attempt)) this.askAgain(attempt);
      else this.fail(attempt, unknown(why, attempt.command.key, this.lastError));
    }
    this.isInDoubt = false;
  }

  /** A cluster client replaces a silent node by itself (`socketTimeout`), and asks it again what had no answer. */
  private drop(): void {
    if (this.client.isCluster) return this.dropNodes();
    this.isReady = false;
    (this.client as Redis).stream?.destroy();
  }
  /**
   * Before its `socketTimeout` is over where connections to nodes may have been forgotten. The client then asks again by
   * itself, or begins anew when no connection is left.
   */
  private dropNodes(): void {
    if (!this.isInDoubt || this.areNodesDropped) return;
    this.areNodesDropped = true;
    for (const node of (this.client as Cluster).nodes('master')) node.stream?.destroy();
  }
}

/** Each node has a connection of its own, which `socketTimeout` ends when it does not answer. */
function pingAll(cluster: Cluster): Promise<unknown> {
  const open = cluster.nodes('master').filter(({ status }) => status === 'ready');
  return Promise.allSettled(open.map((node) => node.ping()));
}
