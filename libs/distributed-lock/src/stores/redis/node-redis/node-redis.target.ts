/** A client of node-redis 5 or later, from `createClient`. It need not be connected. */
export interface NodeRedisClient {
  /** Whether it is subscribed to a channel. Of all clients of node-redis one of a single server has this. */
  readonly isPubSubActive: boolean;
  /** Makes the clients that the store uses. */
  duplicate(): unknown;
  /** Ends a client that the store has made. */
  destroy(): void;
}

/** A client of node-redis 6 or later for the master that Sentinels name, from `createSentinel`. It need not be connected. */
export interface NodeRedisSentinel {
  /** The master that it is connected to. Of all clients of node-redis one for Sentinels has this. */
  getMasterNode(): unknown;
  /** Tells the store the options that it was made with. */
  duplicate(): unknown;
}

/** A client of node-redis 5 or later for a cluster, from `createCluster`. It need not be connected. */
export interface NodeRedisCluster {
  /** One of its nodes. Of all clients of node-redis one for a cluster has this. */
  getRandomNode(): unknown;
  /** Tells the store the options that it was made with. */
  duplicate(): unknown;
}

/** A client of node-redis that the store takes. */
export type NodeRedisTarget = NodeRedisClient | NodeRedisSentinel | NodeRedisCluster;

type Given = Readonly<Record<string, unknown>>;

// Not by instanceof, which would load the library.
export function isNodeRedis(target: object): target is NodeRedisTarget {
  return isOfOneServer(target) || isNodeRedisSentinel(target) || isNodeRedisCluster(target);
}

export function isNodeRedisSentinel(target: object): target is NodeRedisSentinel {
  return typeof (target as Given)['getMasterNode'] === 'function';
}

export function isNodeRedisCluster(target: object): target is NodeRedisCluster {
  return typeof (target as Given)['getRandomNode'] === 'function';
}

/** Whether it is made by `createClientPool` of node-redis. */
export function isOtherNodeRedis(target: object): boolean {
  return 'isOpen' in target && !isNodeRedis(target) && typeof (target as Given)['destroy'] === 'function';
}

function isOfOneServer(target: object): target is NodeRedisClient {
  return 'isPubSubActive' in target && typeof (target as Given)['destroy'] === 'function';
}

/** What the store reads of the options of a client, and sets for its own. */
export interface NodeRedisOptions {
  readonly name?: string;
  readonly username?: string;
  readonly database?: number;
  readonly keyPrefix?: string | Buffer;
  readonly socket?: { readonly host?: string; readonly port?: number; readonly path?: string };
}

/** What the store's clients are made of: a client of the application, or options. */
export interface NodeRedisPattern {
  readonly options?: NodeRedisOptions;
  /** A new client with `options` in the place of its own. */
  duplicate(options: object): NodeRedis;
}

/** What the store uses of a client. */
export interface NodeRedis extends NodeRedisPattern {
  readonly isReady: boolean;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'sharded-channel-moved', listener: () => void): unknown;
  connect(): Promise<unknown>;
  close(): Promise<unknown>;
  destroy(): void;
  sendCommand(args: readonly string[]): Promise<unknown>;
  subscribe(channels: string[], listener: (text: string, channel: string) => void): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  sSubscribe(channel: string, listener: (text: string, channel: string) => void): Promise<unknown>;
  sUnsubscribe(channel: string): Promise<unknown>;
}
