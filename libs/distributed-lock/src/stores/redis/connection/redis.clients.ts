import { Redis, type Cluster, type ClusterOptions, type RedisOptions } from 'ioredis';
import { randomMs, type Chance } from '../../../time/chance.js';
import type { Clock } from '../../../time/clock.js';
import { inBackground } from '../../../async-context/in-background.js';
import { KEEP_ALIVE_MS, reconnectDelay } from '../../common/connection/keep-alive.js';
import type { Client } from './redis.command.js';
import { forgetArguments } from './redis.errors.js';
import { handleDroppedReplies } from './dropped-replies.js';
import type { RedisTarget } from '../redis.options.js';
import { isCluster, isRedis } from './redis.target.js';
import { watchHandshake } from './handshake.js';

/** A new, unconnected client for `target`, with settings of its own where locks depend on them. */
export function ownClient(target: RedisTarget, settings: ClientSettings): Client {
  const { clock, commandTimeoutMs } = settings;
  const client = duplicateOf(target, settings);
  // Before any other listener keeps the error.
  client.on('error', forgetArguments);
  handleDroppedReplies(client);
  // A cluster client watches its nodes by itself (`socketTimeout`).
  if (!client.isCluster) watchHandshake(client as Redis, clock, commandTimeoutMs);
  return client;
}

interface ClientSettings {
  readonly clock: Clock;
  readonly chance: Chance;
  readonly commandTimeoutMs: number;
  /** What the server calls its connections, unless the target says so itself; `undefined` for no name. */
  readonly connectionName: string | undefined;
}

function duplicateOf(target: RedisTarget, settings: ClientSettings): Client {
  const { commandTimeoutMs, chance } = settings;
  const own = ownConnection(commandTimeoutMs, chance);
  const named = (given: RedisOptions | undefined): RedisOptions => {
    const connectionName = given?.connectionName ?? settings.connectionName;
    return connectionName === undefined ? {} : { connectionName };
  };
  if (typeof target === 'string') return new Redis(target, { ...own, ...named(undefined) });
  if (isCluster(target)) {
    const { redisOptions } = target.options;
    const cluster = ownCluster(commandTimeoutMs, chance, { ...redisOptions, ...named(redisOptions) });
    // For Redisson's channels; a connection to a node is opened with the first of them.
    return target.duplicate([], { ...cluster, shardedSubscribers: true });
  }
  const given = isRedis(target) ? target.options : target;
  const settled = { ...sentinelTimeout(given, commandTimeoutMs), ...own, ...named(given) };
  return isRedis(target) ? target.duplicate(settled) : new Redis({ ...target, ...settled });
}

/**
 * Settings that make a connection safe for locks. ioredis queues nothing while disconnected and sends nothing twice, so
 * that no command is executed after its caller has given up (docs/decisions/0005).
 */
function ownConnection(commandTimeoutMs: number, chance: Chance): RedisOptions {
  return {
    lazyConnect: true,
    enableOfflineQueue: false,
    // Auto-pipelining delays commands until setImmediate. A caller that blocks the event loop would delay its renewal.
    enableAutoPipelining: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    maxRetriesPerRequest: null,
    stringNumbers: false,

    keepAlive: KEEP_ALIVE_MS,
    connectTimeout: Math.max(commandTimeoutMs, 100) * 2,
    commandTimeout: undefined,
    // A stream is destroyed at once where it matters; ioredis' own timer for it would outlive close().
    disconnectTimeout: 0,
    retryStrategy: (times) => reconnectDelay(chance, times),
    // A demoted master answers READONLY: connect anew, to the present master.
    reconnectOnError: (error) => error.message.startsWith('READONLY'),
    failoverDetector: true,
    keyPrefix: '',
  };
}

function ownCluster(
  commandTimeoutMs: number,
  chance: Chance,
  given: RedisOptions | undefined,
): ClusterOptions {
  const { lazyConnect: _lazy, retryStrategy: _retry, ...node } = ownConnection(commandTimeoutMs, chance);
  return {
    lazyConnect: true,
    enableOfflineQueue: false,
    enableAutoPipelining: false,
    clusterRetryStrategy: (times) => reconnectDelay(chance, times),
    keyPrefix: '',
    redisOptions: { ...given, ...node, socketTimeout: commandTimeoutMs },
  };
}

/**
 * For one Sentinel, whose replies ioredis awaits without an end otherwise. It takes up to four round trips: to connect, for
 * the handshake twice, and to ask.
 */
function sentinelTimeout({ sentinelCommandTimeout }: RedisOptions, commandTimeoutMs: number): RedisOptions {
  return { sentinelCommandTimeout: sentinelCommandTimeout ?? 4 * commandTimeoutMs };
}

/** How soon a client connects anew when ioredis has given up: at random, so that not all clients come at once. */
const REVIVAL_MS = { least: 100, spread: 400 };

/**
 * Connects, and connects again whenever ioredis gives up for good. ioredis gives up when a failover is announced while it
 * looks for the master, and when no Sentinel answers and its own retries are off.
 *
 * @param onFailure gets the error of an attempt that has failed
 * @returns stops that
 */
export function keepConnecting(
  client: Client,
  { clock, chance }: { readonly clock: Clock; readonly chance: Chance },
  onFailure: (error: Error) => void,
): () => void {
  let cancel = (): void => undefined;
  let isStopped = false;
  const connect = () => inBackground(client.connect(), (error) => onFailure(error as Error));
  client.on('end', () => {
    cancel();
    if (!isStopped) cancel = clock.after(randomMs(chance, REVIVAL_MS), connect);
  });
  connect();
  return () => {
    isStopped = true;
    cancel();
  };
}

/** Where it connects to, without user and password. */
export function clientAddress(client: Client): string {
  if (client.isCluster) return 'a cluster';
  const { path, sentinels, name, host, port, db } = (client as Redis).options;
  if (sentinels) return `the master "${name}" of ${sentinels.length} Sentinels`;
  return path ?? `${host}:${port}/${db}`;
}

/** The user of the connection. */
export function userOf(client: Client): string {
  const { username } = client.isCluster
    ? ((client as Cluster).options.redisOptions ?? {})
    : (client as Redis).options;
  return username || 'default';
}

/** Quits in order if the server replies, and then disconnects in any case. */
export async function closeClient(client: Client, clock: Clock, withinMs: number): Promise<void> {
  if (client.status === 'ready') {
    await new Promise<void>((resolve) => {
      const settle = (): void => {
        cancel();
        resolve();
      };
      const cancel = clock.after(withinMs, settle);
      // A connection that closes now does not answer QUIT.
      client.once('close', settle);
      client.quit().then(settle, settle);
    });
  }
  if (client.status === 'end') return;
  client.disconnect();
  if (!client.isCluster) (client as Redis).stream?.destroy();
}
