/** A client of node-redis 5 or later, from `createClient`. It need not be connected. */
export interface NodeRedisClient {
  /** Whether it is subscribed to a channel. Of all clients of node-redis one of a single server has this. */
  readonly isPubSubActive: boolean;
  /** Makes the clients that the store uses. */
  duplicate(): unknown;
  /** Ends a client that the store has made. */
  destroy(): void;
}

type Given = Readonly<Record<string, unknown>>;

// Not by instanceof, which would load the library.
export function isNodeRedis(target: object): target is NodeRedisClient {
  return 'isPubSubActive' in target && typeof (target as Given)['destroy'] === 'function';
}

/** Whether it is made by `createCluster`, `createSentinel` or `createClientPool` of node-redis. */
export function isOtherNodeRedis(target: object): boolean {
  return (
    'isOpen' in target && !('isPubSubActive' in target) && typeof (target as Given)['destroy'] === 'function'
  );
}

/** What the store reads of the options of a client, and sets for its own. */
interface NodeRedisOptions {
  readonly name?: string;
  readonly username?: string;
  readonly database?: number;
  readonly keyPrefix?: string | Buffer;
  readonly socket?: { readonly host?: string; readonly port?: number; readonly path?: string };
}

/** What the store uses of a client. */
export interface NodeRedis {
  readonly isReady: boolean;
  readonly options?: NodeRedisOptions;
  on(event: 'error', listener: (error: Error) => void): unknown;
  connect(): Promise<unknown>;
  close(): Promise<unknown>;
  destroy(): void;
  duplicate(options: object): NodeRedis;
  sendCommand(args: readonly string[]): Promise<unknown>;
  subscribe(channels: string[], listener: (text: string, channel: string) => void): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
}

/** What a client of node-redis would put before each key. */
export function nodeRedisKeyPrefix(target: NodeRedisClient): string | undefined {
  const { options } = target as unknown as NodeRedis;
  return options?.keyPrefix?.toString();
}
