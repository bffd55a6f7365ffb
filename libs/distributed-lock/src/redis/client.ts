// The interface between the store and a Redis library. Only `ioredis/` and `node-redis/` know a library:
// docs/decisions/0005-own-connections.md
import type { EventEmitter } from 'node:events';
import type { Chance, Clock } from '../common/clock.js';
import { LockConfigurationError } from '../port/lock.errors.js';

/** A reply that calls its listener without a promise, in the turn of the event loop in which it arrives. */
export interface CommandReply {
  listen(onValue: (value: unknown) => void, onError: (error: unknown) => void): void;
}

/**
 * A client of a Redis library with connections of its own. It queues no command while it is disconnected, and sends none twice.
 * Only a `Cluster` of ioredis repeats the commands of a connection that ended.
 */
export interface RedisClient extends Omit<RedisNode, 'askBeside'>, EventEmitter<ClientEvents> {
  readonly isCluster: boolean;
  /** Whether the client writes a command in the same turn of the event loop in which it is sent, even if that turn blocks afterwards. */
  readonly writesAtOnce: boolean;
  readonly user: string;
  /** The number of the database that has the locks. Each new connection starts in database 0, so the store must send `SELECT`. */
  readonly database: ClientDatabase;
  /** Connects, and connects again whenever the connection is lost, until it is closed. */
  open(): void;
  /** Sends `QUIT` and waits for the reply for up to `withinMs`. Disconnects in any case. */
  close(withinMs: number): Promise<void>;
  /** The masters of a cluster, connected or not; the only server if there is no cluster. */
  masters(): readonly RedisNode[];
  /** The master of a slot, as far as this client knows the cluster. Absent where there is no cluster. */
  ownerOf?(slot: number): RedisNode | undefined;
  /** Makes the client reload soon which master serves which slots. Absent where there is no cluster. */
  refreshSlots?(): void;
  evalSha(sha: string, keys: WireKeys, args: Arguments): Promise<unknown> | CommandReply;
  /**
   * From now on, commands sent in this turn of the event loop are buffered, and leave in few system calls at the end of the turn, or at
   * `writeNow`. Absent where the library itself decides when to write.
   */
  writeTogether?(): void;
  writeNow?(): void;
  /**
   * Runs `task` as soon as the server has sent nothing for `ms`. Absent on a cluster, whose client watches its nodes itself.
   *
   * @returns a function that cancels it
   */
  afterSilence?(ms: number, task: () => void): () => void;
  subscribe(channels: readonly string[]): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  /** Subscribes to a sharded channel of a cluster. Servers before Redis 7 refuse it. */
  subscribeSharded(channel: string): Promise<unknown>;
  unsubscribeSharded(channel: string): Promise<unknown>;
  /** Makes a round trip on the connection that is subscribed to `channel`. */
  pingSubscriber(channel: string): Promise<unknown>;
}

export type Arguments = readonly (string | number)[];

/** The events of a client, for each connection in this order: ready, messages, close. */
export interface ClientEvents {
  /** The client is connected: commands are sent from now on. */
  ready: [];
  /** The connection is lost, or none could be opened. Replies that have not come by now never will. */
  close: [];
  /** The error of a connection, or of an attempt to open one. */
  error: [error: Error];
  /** A message arrived on a channel to which the client is subscribed. */
  message: [channel: string, text: string];
  /** A client of a cluster has lost the connection to a node. */
  nodeClose: [];
  /** A client of a cluster has replaced its connections for sharded channels. */
  shardsReplaced: [];
}

/** One server that a client is connected to: the only one, or a master of a cluster. */
export interface RedisNode {
  /** Host and port of the server, without user and password. */
  readonly address: string;
  /** Whether the connection is ready, so that a command sent now is written at once. */
  readonly isReady: boolean;
  /**
   * Sends a command.
   *
   * @param command in lower case
   * @param key on a cluster the command goes to the node that serves this key; `undefined` for any node
   */
  call(command: string, args: Arguments, key?: string): Promise<unknown>;
  /**
   * Opens a second connection to this server, to find out whether the server still answers when the first connection is silent. Closes
   * the second one again.
   *
   * @param onAnswer called if the server answers on the second connection
   * @returns a function that closes the second connection
   */
  askBeside(onAnswer: () => void): () => void;
  /** Ends the connection at once. The client replaces it. */
  drop(): void;
}

export interface ClientSettings {
  readonly clock: Clock;
  readonly chance: Chance;
  readonly commandTimeoutMs: number;
  /** The name of the connections on the server, unless the target names them itself; `undefined` for no name. */
  readonly connectionName: string | undefined;
}

/**
 * The names of a lock's keys, as `EVALSHA` takes them. `text` has the number of keys and the names in RESP, ready to be sent.
 *
 * ioredis copies and writes each argument of each command. This text is written once for the lock instead, which saves some 7 % of the
 * client's CPU (`npm run bench -- --only spread`).
 */
export class WireKeys {
  readonly count: string;
  readonly text: string;

  constructor(readonly names: readonly string[]) {
    this.count = String(names.length);
    let text = asBulk(this.count);
    for (const name of names) text += `$${name.length}\r\n${name}\r\n`;
    // Compare the lengths of the whole text, because counting the bytes of each of five names would take as long as everything else here.
    // Nearly all names are ASCII, so the text with lengths in characters is right for them.
    const isAscii = Buffer.byteLength(text) === text.length;
    this.text = isAscii ? text : [this.count, ...names].map(asBulk).join('');
  }
}

/** Writes a bulk string of RESP, the protocol of Redis: the length in bytes, then the text. */
export function asBulk(text: string): string {
  return `$${Buffer.byteLength(text)}\r\n${text}\r\n`;
}

/**
 * The number of the database that has the locks of one store.
 *
 * The application may move its own client to another database by `SELECT`, and the store gets no event. Until the store sends its first
 * command, it uses the database that the application's client uses. After that it never changes: in another database it would find none
 * of the locks that this process holds.
 */
export class ClientDatabase {
  private settled: number | undefined;

  /**
   * @param ofTarget returns the database that the application's client uses, as far as this process knows
   * @param refresh asks the server which database that is, for `ofTarget` to return. Absent where `ofTarget` always knows
   */
  constructor(
    private readonly ofTarget: () => number,
    readonly refresh?: () => Promise<void>,
  ) {}

  get isSettled(): boolean {
    return this.settled !== undefined;
  }

  /** The database for a connection that is opened now. */
  get current(): number {
    return this.settled ?? this.ofTarget();
  }

  /** Fixes the database. @throws LockConfigurationError if the application has selected another one since the first command */
  settle(): void {
    const present = this.ofTarget();
    this.settled ??= present;
    if (present === this.settled) return;
    throw new LockConfigurationError(
      `The client that redisStore was given has gone from database ${this.settled} to ${present} by SELECT, and the locks of this process are in ${this.settled}. Locks cannot move: give redisStore a client, or options, for one database only.`,
    );
  }
}
