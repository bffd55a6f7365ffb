import { EventEmitter } from 'node:events';
import { giveUpAfter } from '../../common/clock.js';
import { ignoreFailure } from '../../common/promises.js';
import { conceal } from '../../common/redaction.js';
import { KeptConnection } from '../../connection/kept-connection.js';
import { quitWithin } from '../../connection/timing.js';
import type { Arguments, ClientEvents, ClientSettings, RedisClient, RedisNode, WireKeys } from '../client.js';
import { ClientDatabase } from '../client.js';
import { NodeRedisLink, openWithinMs } from './link.js';
import type { NodeRedis, NodeRedisPattern } from './target.js';

/** The error of node-redis for a command that was never written. */
export function offlineError(): Error {
  return new Error('The client is offline');
}

/** The properties of a client that are known before it is connected. */
type Identity = Pick<RedisClient, 'address' | 'user' | 'database'>;

/** A client of node-redis with one connection at a time, to the server that `find` returns. */
export abstract class NodeRedisSingle extends EventEmitter<ClientEvents> implements RedisClient, RedisNode {
  readonly isCluster = false;
  /** node-redis writes a command in a later turn of the event loop, by `setImmediate`. */
  readonly writesAtOnce = false;
  readonly address: string;
  readonly user: string;
  readonly database: ClientDatabase;
  protected readonly kept: KeptConnection<NodeRedisLink>;

  /** @param findWithinMs how long `find`, which looks for the server before each connection, may take */
  constructor(
    { address, user, database }: Identity,
    protected readonly settings: ClientSettings,
    findWithinMs = 0,
  ) {
    super();
    conceal(this, 'kept');
    this.address = address;
    this.user = user;
    this.database = database;
    const openMs = openWithinMs(settings.commandTimeoutMs);
    const withinMs = findWithinMs + openMs;
    const lateError = new Error(`no connection with an answer to its first commands within ${openMs} ms`);
    this.kept = new KeptConnection<NodeRedisLink>({
      ...settings,
      attempt: () => ({ withinMs, lateError, open: (signal, onLost) => this.connect(signal, onLost) }),
      onOpen: () => this.emit('ready'),
      onDown: (error) => {
        this.emit('error', error as Error);
        this.emit('close');
      },
    });
  }

  /** Finds the server for the next connection. */
  protected abstract find(signal: AbortSignal): Promise<NodeRedisPattern>;

  get isReady(): boolean {
    return this.kept.current?.client.isReady ?? false;
  }

  open(): void {
    this.kept.start();
  }

  async close(withinMs: number): Promise<void> {
    const { current } = this.kept;
    if (current && this.isReady)
      await quitWithin(this, { ...this.settings, withinMs }, () => current.client.close());
    this.kept.close();
  }

  call(command: string, args: Arguments): Promise<unknown> {
    return this.send([command, ...args.map(String)]);
  }

  evalSha(sha: string, { names }: WireKeys, args: Arguments): Promise<unknown> {
    return this.send(['evalsha', sha, String(names.length), ...names, ...args.map(String)]);
  }

  masters(): readonly RedisNode[] {
    return [this];
  }

  askBeside(onAnswer: () => void): () => void {
    const { current } = this.kept;
    if (!current) return () => undefined;
    const beside = new NodeRedisLink(current.pattern, this.settings, () => undefined);
    let isAsking = true;
    const close = (): void => {
      isAsking = false;
      beside.destroy();
    };
    const onOpen = (): void => {
      if (!isAsking) return;
      close();
      onAnswer();
    };
    ignoreFailure(beside.open().then(onOpen));
    return close;
  }

  drop(): void {
    this.kept.lose(this.kept.current, new Error('the connection was silent'));
  }

  /** Runs `task` after `ms`, whatever arrives meanwhile, because node-redis does not show the bytes of its connection. */
  afterSilence(ms: number, task: () => void): () => void {
    return giveUpAfter(this.settings.clock, ms, task);
  }

  subscribe(channels: readonly string[]): Promise<unknown> {
    return this.with((client) => client.subscribe([...channels], this.onMessage));
  }

  unsubscribe(channel: string): Promise<unknown> {
    return this.with((client) => client.unsubscribe(channel));
  }

  subscribeSharded(channel: string): Promise<unknown> {
    return this.with((client) => client.sSubscribe(channel, this.onMessage));
  }

  unsubscribeSharded(channel: string): Promise<unknown> {
    return this.with((client) => client.sUnsubscribe(channel));
  }

  pingSubscriber(): Promise<unknown> {
    return this.send(['ping']);
  }

  private readonly onMessage = (text: string, channel: string): void => {
    this.emit('message', channel, text);
  };

  private send(words: readonly string[]): Promise<unknown> {
    return this.with((client) => client.sendCommand(words));
  }

  protected with(task: (client: NodeRedis) => Promise<unknown>): Promise<unknown> {
    const { current } = this.kept;
    return current ? task(current.client) : Promise.reject(offlineError());
  }

  private async connect(signal: AbortSignal, onLost: (error: unknown) => void): Promise<NodeRedisLink> {
    const pattern = await this.find(signal);
    const link = new NodeRedisLink(pattern, this.settings, (error) => {
      this.emit('error', error);
      onLost(error);
    });
    link.client.on('sharded-channel-moved', () => this.emit('shardsReplaced'));
    return link.open(signal);
  }
}

/** A client for one server that is always at the same place. */
export class OneServer extends NodeRedisSingle {
  /** @param database default: the one that the options name */
  constructor(
    private readonly pattern: NodeRedisPattern,
    settings: ClientSettings,
    database?: ClientDatabase,
  ) {
    const { socket, database: number = 0, username } = pattern.options ?? {};
    const address = socket?.path ?? `${socket?.host ?? 'localhost'}:${socket?.port ?? 6379}/${number}`;
    const user = username || 'default';
    super({ address, user, database: database ?? new ClientDatabase(() => number) }, settings);
    conceal(this, 'pattern');
  }

  protected find(): Promise<NodeRedisPattern> {
    return Promise.resolve(this.pattern);
  }
}
