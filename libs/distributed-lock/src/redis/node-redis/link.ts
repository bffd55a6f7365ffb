import { connectWithinMs, KEEP_ALIVE_MS } from '../../connection/timing.js';
import type { ClientSettings } from '../client.js';
import type { NodeRedis, NodeRedisOptions, NodeRedisPattern } from './target.js';

/** How long a connection may take until the server has answered its first commands. */
export function openWithinMs(commandTimeoutMs: number): number {
  return 2 * connectWithinMs(commandTimeoutMs);
}

/**
 * One client of node-redis for one connection, which is never connected again. So no command waits for a next connection
 * or is sent on it, and a reply that is missing is known to be lost (docs/decisions/0005).
 */
export class NodeRedisLink {
  readonly client: NodeRedis;
  private readonly end = new AbortController();

  /**
   * @param settings with `RESP: 3` a subscribed connection takes other commands, too; default 2
   * @param onError gets each error of the connection, including the one that ends it
   */
  constructor(
    readonly pattern: NodeRedisPattern,
    settings: ClientSettings & { readonly RESP?: 3 },
    onError: (error: Error) => void,
  ) {
    this.client = pattern.duplicate({
      ...ownOptions(pattern.options ?? {}, settings, this.end.signal),
      RESP: settings.RESP ?? 2,
    });
    this.client.on('error', onError);
  }

  /** @param signal ends the connection, also while it is being opened */
  async open(signal?: AbortSignal): Promise<this> {
    signal?.throwIfAborted();
    signal?.addEventListener('abort', () => this.destroy());
    await this.client.connect();
    // Check here, because the connection may have been lost before the error listener was added.
    if (!this.client.isReady) throw new Error('the connection was closed');
    return this;
  }

  /** Ends the connection. Leaves no socket, not even one that is about to connect. */
  destroy(): void {
    try {
      this.client.destroy();
    } catch {
      // node-redis 5 throws if the connection is lost already.
    }
    this.end.abort();
  }
}

/** Settings that make a connection safe for locks, whatever those of the application. */
function ownOptions(given: NodeRedisOptions, settings: ClientSettings, signal: AbortSignal): object {
  const { commandTimeoutMs, connectionName } = settings;
  const { socket, name = connectionName } = given;
  return {
    ...(name !== undefined && { name }),
    disableOfflineQueue: true,
    commandsQueueMaxLength: undefined,
    // node-redis would start a timer for each command until it is written. The store has deadlines of its own, for replies.
    commandOptions: { timeout: undefined },
    pingInterval: undefined,
    readonly: false,
    // `RedisConnection` selects the database.
    database: 0,
    // A client has read its URL already. A duplicate would read it again, in preference to these options.
    ...((socket?.host ?? socket?.path) !== undefined && { url: undefined }),
    keyPrefix: undefined,
    clientSideCache: undefined,
    emitInvalidate: false,
    maintNotifications: 'disabled',
    socket: {
      ...socket,
      signal,
      connectTimeout: connectWithinMs(commandTimeoutMs),
      socketTimeout: undefined,
      keepAlive: true,
      keepAliveInitialDelay: KEEP_ALIVE_MS,
      reconnectStrategy: false,
    },
  };
}
