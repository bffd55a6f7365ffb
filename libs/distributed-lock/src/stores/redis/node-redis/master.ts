import { promiseOf } from '../../../async-context/promise-of.js';
import { within } from '../../../time/within.js';
import { unreachable } from '../connection/redis.errors.js';
import { TargetDatabase } from '../redis.database.js';
import type { ClientSettings } from '../redis.client.js';
import type { NodeRedis, NodeRedisPattern } from './node-redis.target.js';

/** Where the server of a client is. Implemented by `OneServer` and `SentinelMaster`. */
export interface Master {
  /** Host and port for messages, without user and password. */
  readonly address: string;
  readonly user: string;
  readonly database: TargetDatabase;
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
  readonly database: TargetDatabase;
  readonly findWithinMs = 0;

  /** @param settings for a client of the application, which may select another database at any time */
  constructor(
    private readonly client: NodeRedisPattern,
    settings?: ClientSettings,
  ) {
    const { socket, database = 0, username } = client.options ?? {};
    this.address = socket?.path ?? `${socket?.host ?? 'localhost'}:${socket?.port ?? 6379}/${database}`;
    this.user = username || 'default';
    this.database = settings ? databaseOf(client as NodeRedis, settings) : new TargetDatabase(() => database);
  }

  open(): void {}

  find(): Promise<NodeRedisPattern> {
    return Promise.resolve(this.client);
  }

  close(): void {}
}

/**
 * node-redis tells nobody which database its client has selected, so an open client is asked, before the first command and then
 * at intervals.
 */
function databaseOf(client: NodeRedis, { clock, commandTimeoutMs }: ClientSettings): TargetDatabase {
  let told = client.options?.database ?? 0;
  const refresh = async (): Promise<void> => {
    if (!client.isOpen) return;
    // A client whose user may not run CLIENT, or that takes no commands now, is in the database of its options.
    const reply = promiseOf(() => client.sendCommand(['CLIENT', 'INFO'])).catch(() => '');
    const info = await within(clock, commandTimeoutMs, reply, LATE);
    if (info === LATE) {
      throw unreachable(
        `the client that redisStore was given has not told its database within ${commandTimeoutMs} ms`,
        undefined,
      );
    }
    const [, number] = /(?:^| )db=(\d+)/.exec(String(info)) ?? [];
    if (number !== undefined) told = Number(number);
  };
  return new TargetDatabase(() => told, refresh);
}

const LATE = Symbol('late');
