/** A client of node-redis 5 or later, from `createClient`. It need not be connected. */
export interface NodeRedisClient {
  /** Whether the client is subscribed to a channel. Only the clients of a single server have this property. */
  readonly isPubSubActive: boolean;
  /** Creates a client with the same options. The store calls it to make its own clients. */
  duplicate(): unknown;
  /** Ends a client that the store has made. */
  destroy(): void;
}

/** A client of node-redis 6 or later for the master that Sentinels name, from `createSentinel`. It need not be connected. */
export interface NodeRedisSentinel {
  /** The master that the client is connected to. Only the clients for Sentinels have this method. */
  getMasterNode(): unknown;
  /** The store calls it to learn the options with which the client was made. */
  duplicate(): unknown;
}

/** A client of node-redis 5 or later for a cluster, from `createCluster`. It need not be connected. */
export interface NodeRedisCluster {
  /** A node of the cluster. Only the clients for a cluster have this method. */
  getRandomNode(): unknown;
  /** The store calls it to learn the options with which the client was made. */
  duplicate(): unknown;
}

/** A client of node-redis that the store takes. */
export type NodeRedisTarget = NodeRedisClient | NodeRedisSentinel | NodeRedisCluster;

/** The options of a client that the store reads, and those that it sets for its own clients. */
export interface NodeRedisOptions {
  readonly name?: string;
  readonly username?: string;
  readonly database?: number;
  readonly keyPrefix?: string | Buffer;
  readonly url?: string;
  readonly socket?: {
    readonly host?: string;
    readonly port?: number;
    readonly path?: string;
    readonly tls?: boolean;
  };
}

/** The store duplicates a pattern to make its own clients. A pattern is a client of the application, or an object with options of it. */
export interface NodeRedisPattern {
  readonly options?: NodeRedisOptions;
  /** Makes a new client, with `options` in preference to those of the pattern. */
  duplicate(options: object): NodeRedis;
}

/** The members of a client that the store uses. */
export interface NodeRedis extends NodeRedisPattern {
  readonly isOpen: boolean;
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
