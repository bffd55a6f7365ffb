import { giveUpAfter, within } from '../../common/clock.js';
import { inBackground, promiseOf } from '../../common/promises.js';
import { conceal } from '../../common/redaction.js';
import { storeError } from '../../connection/connection-errors.js';
import { KeptConnection } from '../../connection/kept-connection.js';
import { LockConfigurationError } from '../../port/lock.errors.js';
import { ClientDatabase, type ClientSettings, type RedisClient } from '../client.js';
import { NodeRedisClusterClient } from './cluster.js';
import {
  addressOf,
  clusterOptions,
  type ClusterOptions,
  patternAt,
  type Place,
  sentinelOptions,
} from './given-options.js';
import { NodeRedisLink, openWithinMs } from './link.js';
import { NodeRedisSingle, OneServer } from './single.js';
import type {
  NodeRedis,
  NodeRedisClient,
  NodeRedisCluster,
  NodeRedisPattern,
  NodeRedisSentinel,
  NodeRedisTarget,
} from './target.js';

type Given = Readonly<Record<string, unknown>>;

/**
 * A client for the master that Sentinels name. A connection to each Sentinel stays open, so that a failover ends the connection to
 * the old master even if the old master still answers. Sentinels learn of a failover one after the other, so the latest epoch counts.
 */
class NodeRedisSentinelMaster extends NodeRedisSingle {
  private readonly sentinels: readonly KeptConnection<NodeRedisLink>[];
  private onFound: (place: Place) => void = () => undefined;
  /** The latest epoch that a Sentinel has reported. Answers of an earlier epoch are ignored. */
  private epoch = 0;
  /** The address of the master that was found last, as the Sentinels report it. */
  private found: string | undefined;

  constructor(
    private readonly target: NodeRedisSentinel,
    settings: ClientSettings,
  ) {
    const { name, sentinelRootNodes, nodeClientOptions } = sentinelOptions(target);
    const address = `the master "${name}" of ${sentinelRootNodes.length} Sentinels`;
    const { username, database: number = 0 } = nodeClientOptions ?? {};
    const database = new ClientDatabase(() => number);
    const user = username || 'default';
    super({ address, user, database }, settings, openWithinMs(settings.commandTimeoutMs));
    conceal(this, 'target', 'sentinels');
    this.sentinels = sentinelRootNodes.map((place) => this.watch(place));
  }

  override open(): void {
    for (const sentinel of this.sentinels) sentinel.start();
    super.open();
  }

  override async close(withinMs: number): Promise<void> {
    await super.close(withinMs);
    for (const sentinel of this.sentinels) sentinel.close();
  }

  /**
   * Asks all Sentinels for the master, and resolves with the first answer that is not older than the latest epoch. A Sentinel that is not
   * connected yet is asked as soon as it is.
   */
  protected find(signal: AbortSignal): Promise<NodeRedisPattern> {
    const { name } = sentinelOptions(this.target);
    const withinMs = openWithinMs(this.settings.commandTimeoutMs);
    return new Promise((resolve, reject) => {
      const cancel = giveUpAfter(this.settings.clock, withinMs, () => {
        // Accept any epoch from now on. Sentinels that were set up anew count from 0, and would otherwise be ignored for ever.
        this.epoch = 0;
        reject(new Error(`no Sentinel has named the master "${name}" within ${withinMs} ms`));
      });
      signal.addEventListener('abort', cancel);
      this.onFound = (place) => {
        cancel();
        this.found = addressOf(place);
        const pattern = patternAt(place, () => {
          const { nodeClientOptions: defaults, nodeAddressMap } = sentinelOptions(this.target);
          return { defaults, nodeAddressMap };
        });
        resolve(pattern);
      };
      for (const sentinel of this.sentinels) this.ask(sentinel);
    });
  }

  private watch(place: Place): KeptConnection<NodeRedisLink> {
    const { settings } = this;
    // Read the options anew for each connection, because the application may have changed a password.
    const pattern = patternAt(place, () => ({
      defaults: sentinelOptions(this.target).sentinelClientOptions,
    }));
    const withinMs = openWithinMs(settings.commandTimeoutMs);
    const lateError = new Error(`no answer from the Sentinel ${addressOf(place)} within ${withinMs} ms`);
    const sentinel: KeptConnection<NodeRedisLink> = new KeptConnection<NodeRedisLink>({
      ...settings,
      attempt: () => ({
        withinMs,
        lateError,
        open: (signal, onLost) => new NodeRedisLink(pattern, { ...settings, RESP: 3 }, onLost).open(signal),
      }),
      onOpen: (link) => {
        const listening = link.client.subscribe(['+switch-master'], () => this.ask(sentinel));
        inBackground(listening, (error) => sentinel.lose(link, error));
        this.ask(sentinel);
      },
      onDown: (error) => this.emit('error', error as Error),
    });
    return sentinel;
  }

  private ask(sentinel: KeptConnection<NodeRedisLink>): void {
    const { current } = sentinel;
    if (!current) return;
    const { name } = sentinelOptions(this.target);
    const { clock, commandTimeoutMs } = this.settings;
    const lose = (error: unknown): void => sentinel.lose(current, error);
    const cancel = giveUpAfter(clock, commandTimeoutMs, () =>
      lose(new Error(`a Sentinel sent nothing for ${commandTimeoutMs} ms`)),
    );
    const reply = current.client.sendCommand(['SENTINEL', 'MASTER', name]).finally(cancel);
    inBackground(
      reply.then((master) => this.onAnswer(master as Record<string, string>)),
      (error) => (current.client.isReady ? this.emit('error', error as Error) : lose(error)),
    );
  }

  private onAnswer({ ip = '', port, 'config-epoch': epoch }: Readonly<Record<string, string>>): void {
    if (Number(epoch) < this.epoch) return;
    const isLater = Number(epoch) > this.epoch;
    this.epoch = Number(epoch);
    const place = { host: ip, port: Number(port) };
    this.onFound(place);
    this.onFound = () => undefined;
    if (isLater && this.found !== addressOf(place))
      this.kept.giveUp(new Error('the Sentinels name another master'));
  }
}

/** A new, unconnected client of node-redis for one server, for the master that Sentinels name, or for a cluster. */
export function nodeRedisClient(target: NodeRedisTarget, settings: ClientSettings): RedisClient {
  if (isNodeRedisCluster(target)) return new NodeRedisClusterClient(() => clusterOptions(target), settings);
  if (isNodeRedisSentinel(target)) return new NodeRedisSentinelMaster(target, settings);
  const client = target as unknown as NodeRedis;
  return new OneServer(client, settings, databaseOf(client, settings));
}

/** @throws LockConfigurationError for a client whose options cannot be read, and for a cluster with TLS on one node only */
export function checkNodeRedis(target: NodeRedisTarget): void {
  const options = optionsOf(target);
  if (!isNodeRedisCluster(target)) return;
  const { rootNodes, defaults } = options as ClusterOptions;
  const asksForTls = rootNodes.some(({ url, socket }) => /^rediss:/i.test(url ?? '') || socket?.tls);
  if (!asksForTls || defaults?.socket?.tls) return;
  throw new LockConfigurationError(
    'A node of the cluster that redisStore was given asks for TLS, which node-redis uses for the nodes that it finds only by defaults: { socket: { tls: true } }. Without it their connections would be in plain text.',
  );
}

/** The prefix that a client of node-redis would put before each key. */
export function nodeRedisKeyPrefix(target: NodeRedisTarget): string | undefined {
  return optionsOf(target)?.keyPrefix?.toString();
}

function optionsOf(target: NodeRedisTarget): { readonly keyPrefix?: string | Buffer } | undefined {
  if (isNodeRedisCluster(target)) return clusterOptions(target);
  return isNodeRedisSentinel(target) ? sentinelOptions(target) : (target as unknown as NodeRedis).options;
}

/**
 * The database that a client of the application has selected. node-redis emits no event for a `SELECT`, so the store asks an open
 * client: before the first command, and then at intervals.
 */
function databaseOf(client: NodeRedis, { clock, commandTimeoutMs }: ClientSettings): ClientDatabase {
  let database = client.options?.database ?? 0;
  const refresh = async (): Promise<void> => {
    if (!client.isOpen) return;
    // If the user may not run CLIENT, or the client takes no commands now, assume the database of its options.
    const reply = promiseOf(() => client.sendCommand(['CLIENT', 'INFO'])).catch(() => '');
    const info = await within(clock, commandTimeoutMs, reply);
    if (info === 'late') {
      const detail = `the client that redisStore was given has not told its database within ${commandTimeoutMs} ms`;
      throw storeError('Redis', { reason: 'unreachable', detail });
    }
    const [, number] = /(?:^| )db=(\d+)/.exec(String(info)) ?? [];
    if (number !== undefined) database = Number(number);
  };
  return new ClientDatabase(() => database, refresh);
}

// Not by instanceof, which would load the library.
export function isNodeRedis(target: object): target is NodeRedisTarget {
  return isOfOneServer(target) || isNodeRedisSentinel(target) || isNodeRedisCluster(target);
}

function isNodeRedisSentinel(target: object): target is NodeRedisSentinel {
  return typeof (target as Given)['getMasterNode'] === 'function';
}

function isNodeRedisCluster(target: object): target is NodeRedisCluster {
  return typeof (target as Given)['getRandomNode'] === 'function';
}

function isOfOneServer(target: object): target is NodeRedisClient {
  return 'isPubSubActive' in target && typeof (target as Given)['destroy'] === 'function';
}
