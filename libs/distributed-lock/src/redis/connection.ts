import { type Clock, readClocks } from '../common/clock.js';
import { LinkedQueue } from '../common/collections.js';
import { ignoreFailure, inBackground } from '../common/promises.js';
import { conceal } from '../common/redaction.js';
import { ConnectionErrors, textOf } from '../connection/connection-errors.js';
import { Outage, type OutageOptions } from '../connection/kept-connection.js';
import { ReplyDeadline, WaitingRequests } from '../connection/reply-deadline.js';
import { ServerClock } from '../connection/server-clock.js';
import { LockStoreError } from '../port/lock.errors.js';
import type { RedisClient, CommandReply } from './client.js';
import { type RedisCommand, TOO_LATE } from './command.js';
import { asStoreError, describe, forgetArguments, isAnswer, isDenied, unknown } from './errors.js';
import { IdleProbe, Ping } from './idle-probe.js';

/**
 * The most commands in flight; further ones are sent as replies come in. With more, the server would get to the last ones only after
 * their deadlines, and refuse them.
 */
export const MAX_IN_FLIGHT = 2000;

/**
 * The store's connection for commands.
 *
 * A connection that has replied nothing for `commandTimeoutMs` while a command is in flight may be stuck. It is replaced,
 * and all commands in flight fail with it. A deadline counts from the last reply to any command: as long as replies come,
 * each command gets its reply soon.
 */
export class RedisConnection {
  readonly serverClock: ServerClock;
  /** How long the server took to reply to the last `TIME` command, in ms. */
  roundTripMs = 0;
  /** The command by which our scripts and Redisson's clients publish on these servers. */
  publish: PublishCommand = 'PUBLISH';
  /** How many connections have become ready so far. Shows whether a reply came on the present one. */
  generation = 0;
  /** How many connections to nodes of a cluster were closed. */
  nodeCloses = 0;
  private readonly waiting = new WaitingCommands();
  private readonly inFlight = new LinkedQueue<RedisCommand>();
  private readonly idleProbe = new IdleProbe();
  private isReady = false;
  /** The database of the open connection. */
  private selected = 0;
  private isClosed = false;
  private readonly errors: ConnectionErrors;
  readonly clock: Clock;
  readonly commandTimeoutMs: number;
  private readonly outage: Outage;
  private readonly deadline: ReplyDeadline<RedisCommand>;
  private cancelPreparing: (() => void) | undefined;

  /** @param prepare sends the commands that each new connection needs before its first command */
  constructor(
    private readonly client: RedisClient,
    options: OutageOptions,
    private readonly prepare: (client: RedisClient) => Promise<unknown>,
  ) {
    conceal(this, 'client');
    const { clock, commandTimeoutMs } = options;
    this.clock = clock;
    this.commandTimeoutMs = commandTimeoutMs;
    this.errors = new ConnectionErrors('Redis', client.address);
    this.outage = new Outage(options, () =>
      this.errors.noConnection(`no connection for ${commandTimeoutMs} ms`),
    );
    this.outage.onDown();
    this.serverClock = new ServerClock(clock);
    this.deadline = new ReplyDeadline({
      clock,
      commandTimeoutMs,
      timeoutOf: (command) =>
        this.inFlight.has(command) ? this.idleProbe.timeoutOf(command, commandTimeoutMs) : commandTimeoutMs,
      unanswered: () => [...this.waiting, ...this.inFlight],
      onDue: (isDue) => this.onDue(isDue),
    });
    client.on('error', (error) => this.onFailure(error));
    client.on('ready', () => {
      this.selected = 0;
      this.prepareConnection();
    });
    client.on('close', () => this.onLost('the connection was closed'));
    client.on('nodeClose', () => (this.nodeCloses += 1));
    client.open();
  }

  /**
   * Sends the command. @throws LockStoreError: `unreachable` if it was never written, `unknown` if it was written and no reply
   * came, otherwise what the reply says
   */
  run<Result>(command: RedisCommand<Result>): Promise<Result> {
    return new Promise((resolve, reject) => this.start(command, resolve, reject));
  }

  /** As `run`, for a caller that needs no promise. */
  start<Result>(
    command: RedisCommand<Result>,
    resolve: (result: Result) => void,
    reject: (error: unknown) => void,
  ): void {
    const at = readClocks(this.clock);
    command.start(at.now, resolve, reject);
    if (this.isClosed) return command.fail(this.errors.closed(command.key));
    if (this.waiting.size === 0 && this.mayWrite) this.write(command as RedisCommand, at);
    else this.waiting.push(command as RedisCommand);
    this.deadline.start();
  }

  /**
   * Fixes the database of all locks at the one that the target uses now. If the connection was opened for another one, selects it before
   * the next command.
   *
   * @returns a promise if the target must be asked first which database it uses
   * @throws LockConfigurationError if the target has gone to another database since
   */
  settleDatabase(): Promise<void> | undefined {
    const { database } = this.client;
    if (database.refresh && !database.isSettled) return database.refresh().then(() => this.onDatabase());
    this.onDatabase();
    return undefined;
  }

  private onDatabase(): void {
    const { database } = this.client;
    database.settle();
    if (!this.isReady || this.selected === database.current) return;
    // Commands wait until the connection is ready again.
    this.isReady = false;
    this.prepareConnection();
  }

  /** Pings an idle connection. If no reply comes, the connection is replaced. */
  probe(): void {
    // A single connection needs no ping while commands are in flight or replies came lately. A cluster has many connections, and a reply
    // on one says nothing about the others, so ping there in any case.
    const isBusy = this.inFlight.size > 0 || !this.idleProbe.isIdle(this.clock.now());
    // Ask for the database again, because a client of node-redis emits no event when the application sends `SELECT`.
    const { database } = this.client;
    if (database.isSettled && database.refresh) ignoreFailure(database.refresh());
    if (!this.isReady || (isBusy && !this.client.isCluster)) return;
    ignoreFailure(this.run(new Ping()));
  }

  /** Rejects what is in flight. Leaves no socket and no timer, whatever the server does. */
  async close(): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    this.outage.stop();
    this.deadline.stop();
    this.idleProbe.end();
    this.onLost('the store is closed');
    for (const command of this.waiting.take()) command.fail(this.errors.closed(command.key));
    await this.client.close(this.commandTimeoutMs);
  }

  private prepareConnection(): void {
    inBackground(this.onReady(), (error) => {
      // A connection is prepared only when it is new, so end one that could not be prepared. `this.drop()` leaves the client of a cluster
      // alone.
      if (this.client.isCluster && this.client.isReady) this.client.drop();
      else this.drop();
      // Record the error after the drop. The drop may emit an error of its own, and only this one says what went wrong.
      this.onFailure(error);
    });
  }

  private async onReady(): Promise<void> {
    const cancel = this.client.afterSilence?.(this.commandTimeoutMs, () => this.drop());
    this.cancelPreparing = cancel;
    this.client.writeTogether?.();
    const { client, clock, serverClock } = this;
    const database = client.database.current;
    try {
      const [, , roundTripMs = 0, publish] = await Promise.all([
        this.select(database),
        this.prepare(client),
        measureTime(client, clock, serverClock),
        publishCommandOf(client),
      ]);
      this.roundTripMs = roundTripMs;
      this.publish = publish;
    } finally {
      cancel?.();
    }
    if (this.isClosed) return;
    // Start over if the application selected another database while the connection was prepared.
    if (database !== this.client.database.current) return this.onReady();
    this.generation += 1;
    this.isReady = true;
    this.onAnswer();
    this.errors.last = undefined;
    this.outage.onUp();
    this.writeWaiting();
  }

  private async select(database: number): Promise<void> {
    if (database === this.selected) return;
    this.selected = database;
    // In upper case: ioredis would remember a `select` in lower case and repeat it on the next connection, by a promise whose error
    // nobody handles.
    await this.client.call('SELECT', [database]);
  }

  private onFailure(error: unknown): void {
    this.errors.last = { failure: { reason: 'unreachable', detail: describe(error) }, error };
  }

  private onLost(why: string): void {
    this.isReady = false;
    if (!this.isClosed) this.outage.onDown();
    // Replies to the preparing commands are lost with their connection. Cancel their deadline, or it would end the next connection.
    this.cancelPreparing?.();
    for (const command of this.inFlight) {
      if (this.idleProbe.mayRepeat(command)) this.repeat(command);
      else {
        this.inFlight.remove(command);
        command.fail(unknown(why, command.key, this.errors.last?.error));
      }
    }
    this.idleProbe.end();
  }

  private repeat(command: RedisCommand): void {
    this.inFlight.remove(command);
    command.isSecondCopy = true;
    this.waiting.push(command);
  }

  /** Replaces the connection. The client of a cluster itself replaces a node that is silent. */
  private drop(): void {
    if (this.client.isCluster) return this.idleProbe.end();
    this.isReady = false;
    this.client.drop();
  }

  private get mayWrite(): boolean {
    return this.isReady && this.client.isReady && this.inFlight.size < MAX_IN_FLIGHT;
  }

  private writeWaiting(): void {
    while (this.waiting.size > 0 && this.mayWrite) this.write(this.waiting.shift() as RedisCommand);
  }

  private write(command: RedisCommand, at = readClocks(this.clock)): void {
    command.sent = at;
    if (!command.isSecondCopy) command.since = at.now;
    if (this.inFlight.size === 0 && this.idleProbe.isIdle(at.now)) {
      this.idleProbe.begin();
      this.deadline.fireIn(this.commandTimeoutMs / 2);
    }
    this.inFlight.push(command);
    // Buffer a command that must leave now as well: it takes along what this turn has buffered before it. This command is in `inFlight`
    // already, so one that leaves when idle is alone there.
    const isBuffered = command.flush !== 'when idle' || this.inFlight.size > 1;
    if (isBuffered) this.client.writeTogether?.();
    this.follow(command, this.send(command));
    if (isBuffered && command.flush === 'now') this.client.writeNow?.();
  }

  private send(command: RedisCommand): Promise<unknown> | CommandReply {
    try {
      return command.send(this.client);
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  /** Waits for the reply to one copy of the command. A reply to the first copy is ignored as soon as there is a second one. */
  private follow(command: RedisCommand, reply: Promise<unknown> | CommandReply): void {
    const { isSecondCopy } = command;
    const onValue = (value: unknown): void => {
      if (command.isSecondCopy === isSecondCopy) this.onReply(command, value);
    };
    const onError = (error: unknown): void => {
      if (command.isSecondCopy === isSecondCopy) this.onError(command, error);
    };
    if ('listen' in reply) reply.listen(onValue, onError);
    else reply.then(onValue, onError);
  }

  private onReply(command: RedisCommand, value: unknown): void {
    const receivedAt = this.clock.now();
    this.onAnswer(receivedAt);
    if (this.inFlight.remove(command)) {
      try {
        const result = command.read(value, receivedAt);
        if (result === TOO_LATE) this.onTooLate(command);
        else command.succeed(result);
      } catch (error) {
        command.fail(asStoreError(error, command.key));
      }
    }
    this.writeWaiting();
  }

  private onTooLate(command: RedisCommand): void {
    const { wasTooLate, key } = command;
    command.wasTooLate = true;
    if (!wasTooLate) return this.waiting.push(command);
    command.fail(unknown('it found two requests in a row too late, by its own clock', key));
  }

  private onError(command: RedisCommand, error: unknown): void {
    forgetArguments(error);
    if (isAnswer(error)) this.onAnswer();
    if (textOf(error).startsWith('READONLY')) {
      // The server has become a replica. Drop the connection, so that the next one goes to the present master. This command fails with the
      // server's error, not with the loss of the connection.
      if (this.inFlight.remove(command)) command.fail(asStoreError(error, command.key));
      return this.drop();
    }
    if (!this.inFlight.has(command)) return;
    if (!(error instanceof LockStoreError)) {
      const hasLostNode = this.client.isCluster && !isAnswer(error);
      if (!hasLostNode || !this.idleProbe.mayRepeat(command))
        return this.follow(command, command.recover(this.client, error));
      this.repeat(command);
      return this.writeWaiting();
    }
    this.inFlight.remove(command);
    command.fail(error);
    this.writeWaiting();
  }

  /**
   * Restarts the deadline, because a reply has come. Not on a cluster: it has many connections, and a reply on one says nothing about the
   * others.
   */
  private onAnswer(now = this.clock.now()): void {
    this.idleProbe.onReply(now);
    if (!this.client.isCluster) this.deadline.onReply(now);
  }

  private onDue(isDue: (command: RedisCommand) => boolean): void {
    const what = `no connection within ${this.commandTimeoutMs} ms`;
    for (const command of this.waiting.take(isDue)) command.fail(this.errors.noConnection(what, command.key));
    for (const command of this.inFlight) if (isDue(command)) this.onNoReply(command);
    this.writeWaiting();
  }

  private onNoReply(command: RedisCommand): void {
    const { client, commandTimeoutMs: ms } = this;
    if (this.idleProbe.timeoutOf(command, ms) < ms) {
      const open = client.masters().filter(({ isReady }) => isReady);
      return this.idleProbe.ask(open, (node) => (client.isCluster ? node.drop() : this.drop()));
    }
    this.inFlight.remove(command);
    command.fail(unknown(`nothing came back within ${ms} ms`, command.key));
    this.drop();
  }
}

/**
 * Asks the server for its time, because each command says in server time until when it may be executed.
 *
 * @returns how long the reply took, in ms; `undefined` if this user may not ask
 */
async function measureTime(
  client: RedisClient,
  clock: Clock,
  serverClock: ServerClock,
): Promise<number | undefined> {
  const sent = readClocks(clock);
  try {
    const [seconds, micros] = (await client.call('time', [])) as [string, string];
    const receivedAt = clock.now();
    serverClock.learn(Number(seconds) * 1000 + Math.floor(Number(micros) / 1000), sent, receivedAt);
    return receivedAt - sent.now;
  } catch (error) {
    // A user without the right to run TIME may still connect. Each acquire then fails with an error that names the missing right.
    if (!isDenied(error)) throw error;
    return undefined;
  }
}

/** Redisson publishes to sharded channels on a cluster whose servers have them, which is so from Redis 7 on. */
type PublishCommand = 'PUBLISH' | 'SPUBLISH';

/** Asks, as Redisson does, whether the server has sharded channels. */
async function publishCommandOf(client: RedisClient): Promise<PublishCommand> {
  if (!client.isCluster) return 'PUBLISH';
  return client.call('pubsub', ['SHARDNUMSUB']).then(
    () => 'SPUBLISH',
    () => 'PUBLISH',
  );
}

/** The order in which a new connection sends the commands that have waited for it (docs/decisions/0003). */
const RANK = { release: 0, renew: 1, acquire: 2 };

/** Commands that wait for a connection, or for fewer commands in flight: releases first, then renewals, then acquires. */
class WaitingCommands extends WaitingRequests<RedisCommand> {
  override push(command: RedisCommand): void {
    const rank = RANK[command.priority];
    const before = this.requests.findLastIndex(({ priority }) => RANK[priority] <= rank);
    this.requests.splice(before + 1, 0, command);
  }

  shift(): RedisCommand | undefined {
    return this.requests.shift();
  }
}
