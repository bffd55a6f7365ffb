import { EventEmitter } from 'node:events';
import type { Readable } from 'node:stream';
import type { Cluster, Command, Redis } from 'ioredis';
import { type Clock, giveUpAfter, randomMs } from '../../common/clock.js';
import { ignoreFailure, inBackground } from '../../common/promises.js';
import { conceal } from '../../common/redaction.js';
import { ServerProtocol } from '../../connection/kept-connection.js';
import { quitWithin } from '../../connection/timing.js';
import { ClientDatabase } from '../client.js';
import type { Arguments, ClientEvents, ClientSettings, RedisClient } from '../client.js';
import type { RedisNode, CommandReply, WireKeys } from '../client.js';
import { forgetArguments } from '../errors.js';
import { evalShaClassFor } from './evalsha.js';
import {
  duplicateOf,
  type IoredisTarget,
  isCluster,
  isRedis,
  liveOptionsOf,
  optionsOfUrl,
} from './options.js';
import { writeNow, writeTogether } from './write-together.js';

/**
 * The most channels in one `SUBSCRIBE`. Each is an argument of one function call, and JavaScript fails at some 100 000 arguments, so this
 * keeps far below.
 */
const MAX_CHANNELS = 1000;
/** How soon a client connects anew when ioredis has given up: at random, so that not all clients come at once. */
const REVIVAL_MS = { least: 100, spread: 400 };

export function ioredisClient(target: IoredisTarget, settings: ClientSettings): RedisClient {
  const client = duplicateOf(target, settings);
  return client.isCluster
    ? new IoredisCluster(client as Cluster, target, settings)
    : new IoredisSingle(client as Redis, target, settings);
}

abstract class IoredisClient<Client extends Redis | Cluster = Redis | Cluster>
  extends EventEmitter<ClientEvents>
  implements RedisClient
{
  abstract readonly isCluster: boolean;
  readonly writesAtOnce = true;
  abstract readonly address: string;
  abstract readonly user: string;
  abstract readonly database: ClientDatabase;
  private readonly EvalSha: ReturnType<typeof evalShaClassFor>;
  private isClosed = false;
  /** How many `error` events this client has emitted. */
  private errors = 0;
  private cancelRevival = (): void => undefined;

  constructor(
    protected readonly client: Client,
    protected readonly settings: ClientSettings,
  ) {
    super();
    conceal(this, 'client');
    this.EvalSha = evalShaClassFor(client);
    const events: EventEmitter = client;
    events.on('error', (error: Error) => {
      this.errors += 1;
      forgetArguments(error);
      this.emit('error', error);
    });
    events.on('ready', () => this.emit('ready'));
    for (const name of ['close', 'end']) events.on(name, () => this.emit('close'));
    for (const name of ['message', 'smessage'])
      events.on(name, (channel: string, text: string) => this.emit('message', channel, text));
    catchUnawaitedReplies(client);
  }

  get isReady(): boolean {
    return this.client.status === 'ready';
  }

  /**
   * Connects. Also connects again after ioredis has given up for good, which happens when a failover is announced while it looks for the
   * master, and when no Sentinel answers and its own retries are off.
   */
  open(): void {
    const { clock, chance } = this.settings;
    const events: EventEmitter = this.client;
    const connect = (): void => {
      const errorsBefore = this.errors;
      inBackground(this.client.connect(), (error) => {
        // If ioredis has emitted the reason as an event, do not emit this error, which says only that the connection is closed.
        if (this.errors === errorsBefore) this.emit('error', error as Error);
      });
    };
    events.on('end', () => {
      this.cancelRevival();
      if (!this.isClosed) this.cancelRevival = clock.after(randomMs(chance, REVIVAL_MS), connect);
    });
    connect();
  }

  async close(withinMs: number): Promise<void> {
    this.isClosed = true;
    this.cancelRevival();
    if (this.isReady) await quitWithin(this, { ...this.settings, withinMs }, () => this.client.quit());
    if (this.client.status === 'end') return;
    this.client.disconnect();
    if (!this.isCluster) this.drop();
  }

  call(command: string, args: Arguments): Promise<unknown> {
    return this.client.call(command, ...args);
  }

  evalSha(sha: string, keys: WireKeys, args: Arguments): Promise<unknown> | CommandReply {
    if (!this.EvalSha) return this.call('evalsha', [sha, keys.names.length, ...keys.names, ...args]);
    return this.client.sendCommand(new this.EvalSha(sha, keys, args) as unknown as Command) as
      | Promise<unknown>
      | CommandReply;
  }

  /**
   * Subscribes, in several commands if there are many channels. Each key that a foreign client holds and this process waits for has a
   * channel.
   */
  subscribe(channels: readonly string[]): Promise<unknown> {
    const parts: Promise<unknown>[] = [];
    for (let i = 0; i < channels.length; i += MAX_CHANNELS)
      parts.push(this.client.subscribe(...channels.slice(i, i + MAX_CHANNELS)));
    return Promise.all(parts);
  }

  unsubscribe(channel: string): Promise<unknown> {
    return this.client.unsubscribe(channel);
  }

  subscribeSharded(channel: string): Promise<unknown> {
    return this.client.ssubscribe(channel);
  }

  unsubscribeSharded(channel: string): Promise<unknown> {
    return this.client.sunsubscribe(channel);
  }

  abstract masters(): readonly RedisNode[];
  abstract drop(): void;
  abstract pingSubscriber(channel: string): Promise<unknown>;
}

/** One server, or the master that Sentinels name. */
class IoredisSingle extends IoredisClient<Redis> {
  readonly isCluster = false;
  readonly address: string;
  readonly user: string;
  readonly database: ClientDatabase;
  private readonly node: IoredisNode;

  constructor(client: Redis, target: IoredisTarget, settings: ClientSettings) {
    super(client, settings);
    this.database = new ClientDatabase(databaseReader(target));
    liveOptionsOf(target, (error) => this.emit('error', error as Error))(client.options);
    const { sentinels, name, username } = client.options;
    this.node = new IoredisNode(client, this.database.current);
    this.address = sentinels ? `the master "${name}" of ${sentinels.length} Sentinels` : this.node.address;
    this.user = username || 'default';
    watchHandshake(client, settings.clock, settings.commandTimeoutMs);
  }

  masters(): readonly RedisNode[] {
    return [this.node];
  }

  drop(): void {
    this.node.drop();
  }

  writeTogether(): void {
    writeTogether(this.client.stream);
  }

  writeNow(): void {
    writeNow(this.client.stream);
  }

  afterSilence(ms: number, task: () => void): () => void {
    return afterSilence(this.client.stream, { ...this.settings, ms }, task);
  }

  pingSubscriber(): Promise<unknown> {
    return this.client.ping();
  }
}

/** A client of a cluster. ioredis watches the connection to each node by itself (`socketTimeout`). */
class IoredisCluster extends IoredisClient<Cluster> {
  readonly isCluster = true;
  readonly address = 'a cluster';
  readonly user: string;
  readonly database = new ClientDatabase(() => 0);

  constructor(client: Cluster, target: IoredisTarget, settings: ClientSettings) {
    super(client, settings);
    this.user = client.options.redisOptions?.username || 'default';
    const keepNodeLive = liveOptionsOf(target, (error) => this.emit('error', error as Error));
    client.on('+node', (node: Redis) => {
      keepNodeLive(node.options);
      node.on('close', () => this.emit('nodeClose'));
    });
    client.on('subscribersReady', () => this.emit('shardsReplaced'));
    onSubscriberReplaced(client, () => {
      // On these events `RedisNotifications` subscribes again, and then makes waiters recheck and holders renew.
      this.emit('close');
      this.emit('ready');
    });
  }

  masters(): readonly RedisNode[] {
    return this.client.nodes('master').map((node) => new IoredisNode(node));
  }

  ownerOf(slot: number): RedisNode | undefined {
    const [address] = this.client.slots[slot] ?? [];
    const owner = this.client
      .nodes('all')
      .find(({ options: { host, port } }) => `${host}:${port}` === address);
    return owner && new IoredisNode(owner);
  }

  refreshSlots(): void {
    this.client.refreshSlotsCache();
  }

  drop(): void {
    this.client.disconnect(true);
  }

  /** Subscribes again to a channel that it is subscribed to, because a `PING` would go to another connection. */
  pingSubscriber(channel: string): Promise<unknown> {
    return this.client.subscribe(channel);
  }
}

/** One connection of ioredis to one server. */
class IoredisNode implements RedisNode {
  readonly address: string;

  constructor(
    private readonly connection: Redis,
    database = 0,
  ) {
    const { path, host, port } = connection.options;
    this.address = path ?? `${host}:${port}/${database}`;
  }

  get isReady(): boolean {
    return this.connection.status === 'ready';
  }

  call(command: string, args: Arguments): Promise<unknown> {
    return this.connection.call(command, ...args);
  }

  askBeside(onAnswer: () => void): () => void {
    const beside = this.connection.duplicate({
      retryStrategy: null,
      enableReadyCheck: false,
      failoverDetector: false,
    });
    const close = (): void => {
      beside.removeListener('ready', onReady);
      beside.disconnect();
      beside.stream?.destroy();
    };
    function onReady(): void {
      close();
      onAnswer();
    }
    beside.on('error', () => undefined);
    beside.on('ready', onReady);
    ignoreFailure(beside.connect());
    return close;
  }

  drop(): void {
    this.connection.stream?.destroy();
  }
}

/**
 * Makes a function that reads the database that the target uses now. After a `SELECT` the options of a client still name the old
 * database, so the function reads the client's state. A URL is parsed once, because each command needs the database.
 */
function databaseReader(target: IoredisTarget): () => number {
  if (typeof target === 'string') {
    const { db = 0 } = optionsOfUrl(target);
    return () => db;
  }
  if (isCluster(target)) return () => 0;
  if (!isRedis(target)) return () => Number(target.db ?? 0);
  return () => {
    const { condition, prevCondition } = target as unknown as Conditions;
    // While a client reconnects, `prevCondition` has the database that it will select again.
    return Number((prevCondition ?? condition)?.select ?? target.options.db ?? 0);
  };
}

/** The state of a connection, which ioredis keeps in private members. */
interface Conditions {
  readonly condition?: Condition | null;
  readonly prevCondition?: Condition | null;
}

interface Condition {
  readonly select?: number | string | null;
}

/** The connector by which a client of ioredis finds its master, over connections to the Sentinels. */
interface SentinelConnector {
  connectToSentinel?(...args: unknown[]): Redis;
}

/**
 * Handles replies for which ioredis itself does not wait: to `ASKING` before a command whose slot migrates, and to the `SUBSCRIBE` of a
 * Sentinel connection that it opens again. If one of them is an error, "Connection is closed." for example, Node would end the process.
 * Connections to Sentinels would also print their errors, so this listens to those.
 */
function catchUnawaitedReplies(client: Redis | Cluster): void {
  if (client.isCluster) {
    (client as Cluster).on('+node', handleAllReplies);
    return;
  }
  const { connector } = client as unknown as { readonly connector?: SentinelConnector };
  const connect = connector?.connectToSentinel?.bind(connector);
  if (!connector || !connect) return;
  connector.connectToSentinel = (...args) => {
    const sentinel = connect(...args);
    sentinel.on('error', () => undefined);
    handleAllReplies(sentinel);
    return sentinel;
  };
}

/** The part of a cluster client that keeps one connection to some node, for the channels that are not sharded. */
interface ClusterSubscriber {
  selectSubscriber?(): void;
  getInstance(): Redis | null;
}

/**
 * Calls `task` whenever the client of a cluster has connected to another node for its subscriptions. ioredis replaces that connection, and
 * subscribes on the new one, without an event. Messages that were published meanwhile are lost.
 */
function onSubscriberReplaced(cluster: Cluster, task: () => void): void {
  const { subscriber } = cluster as unknown as { readonly subscriber?: ClusterSubscriber };
  const select = subscriber?.selectSubscriber?.bind(subscriber);
  if (!subscriber || !select) return;
  subscriber.selectSubscriber = () => {
    select();
    // While the client itself connects, the store has no subscriptions yet.
    if (cluster.status === 'ready') subscriber.getInstance()?.once('ready', task);
  };
}

function handleAllReplies(node: Redis): void {
  const send = node.sendCommand.bind(node);
  node.sendCommand = (...args) => {
    const reply = send(...args);
    if (reply instanceof Promise) reply.catch(() => undefined);
    return reply;
  };
}

const REDIS = new ServerProtocol({
  server: 'Redis',
  // The first byte of every reply of Redis is one of these types, of RESP 2 or 3.
  reply: /^[+\-:$*_#,(!=%~>|]/,
  tls: 'the URL of a Redis with TLS starts with rediss:',
});

const NO_PASSWORD = 'Redis asks for a password: give it in the URL, as redis://:password@host';

/**
 * Ends a connection that the server has accepted and does not answer, because ioredis waits without a limit between `connect` and
 * `ready`. The error says what answers, if that is no Redis.
 *
 * @param silenceMs how long the server may send nothing
 */
function watchHandshake(client: Redis, clock: Clock, silenceMs: number): void {
  client.on('connect', () => {
    const { stream } = client;
    let problem: string | undefined = REDIS.closedUnanswered();
    const fail = (why: string): void => {
      problem = why;
      stream.destroy();
    };
    const onFirst = (bytes: Buffer): void => {
      problem = undefined;
      if (bytes.toString('latin1').startsWith('-NOAUTH')) fail(NO_PASSWORD);
      const strange = REDIS.strangeReply(bytes);
      if (strange) fail(strange);
    };
    const onClosed = (): void => {
      end();
      // Emit this error before ioredis emits its own, which does not say what kind of server answered.
      if (problem) client.emit('error', new Error(problem, { cause: stream.errored ?? undefined }));
    };
    const cancel = afterSilence(stream, { clock, ms: silenceMs }, () =>
      fail(`the server took the connection and sent nothing for ${silenceMs} ms`),
    );
    const end = (): void => {
      cancel();
      stream.removeListener('data', onFirst);
      client.removeListener('ready', end);
      client.removeListener('close', onClosed);
    };
    stream.once('data', onFirst);
    client.on('ready', end);
    client.on('close', onClosed);
  });
}

/**
 * Runs `task` as soon as nothing has arrived on `stream` for `ms`. Several round trips may follow each other meanwhile, and each of
 * them may take that long.
 *
 * @returns a function that cancels it
 */
function afterSilence(
  stream: Readable,
  { clock, ms }: { readonly clock: Clock; readonly ms: number },
  task: () => void,
): () => void {
  let cancel = (): void => undefined;
  const end = (): void => {
    cancel();
    stream.removeListener('data', wait);
  };
  function wait(): void {
    cancel();
    cancel = giveUpAfter(clock, ms, () => {
      end();
      task();
    });
  }
  wait();
  stream.on('data', wait);
  return end;
}
