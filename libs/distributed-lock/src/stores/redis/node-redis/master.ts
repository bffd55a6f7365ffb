import type { NodeRedisPattern } from './node-redis.target.js';

/** Where the server of a client is. Implemented by `OneServer` and `SentinelMaster`. */
export interface Master {
  /** Host and port for messages, without user and password. */
  readonly address: string;
  readonly user: string;
  open(listener: MasterListener): void;
  /** How long `find` may take. */
  readonly findWithinMs: number;
  find(signal: AbortSignal): Promise<NodeRedisPattern>;
  close(): void;
}

/** Implemented by `NodeRedisSingle`. */
export interface MasterListener {
  /** Another server than the one that was found last is the master. */
  onMoved(): void;
  onError(error: Error): void;
}

/** Finds the one server of a client that is neither for Sentinels nor for a cluster. */
export class OneServer implements Master {
  readonly address: string;
  readonly user: string;
  readonly findWithinMs = 0;

  constructor(private readonly client: NodeRedisPattern) {
    const { socket, database, username } = client.options ?? {};
    this.address = socket?.path ?? `${socket?.host ?? 'localhost'}:${socket?.port ?? 6379}/${database ?? 0}`;
    this.user = username || 'default';
  }

  open(): void {}

  find(): Promise<NodeRedisPattern> {
    return Promise.resolve(this.client);
  }

  close(): void {}
}
