import { EventEmitter } from 'node:events';
import { inBackground } from '../../../async-context/in-background.js';
import { conceal } from '../../../redaction/conceal.js';
import { giveUpAfter } from '../../../time/turns.js';
import { KeptConnection } from '../../common/connection/kept-connection.js';
import { quitWithin } from '../../common/connection/quit-within.js';
import type {
  Arguments,
  ClientEvents,
  ClientSettings,
  RedisClient,
  RedisNode,
  WireKeys,
} from '../redis.client.js';
import type { TargetDatabase } from '../redis.database.js';
import type { Master } from './master.js';
import { NodeRedisLink, openWithinMs } from './node-redis.link.js';
import type { NodeRedis } from './node-redis.target.js';

/** The error of node-redis for a command that was never written. */
export function offline(): Error {
  return new Error('The client is offline');
}

/** A client of node-redis for one server, or for the master that Sentinels name. */
export class NodeRedisSingle extends EventEmitter<ClientEvents> implements RedisClient {
  readonly isCluster = false;
  /** node-redis writes a command in a later turn of the event loop, by `setImmediate`. */
  readonly writesAtOnce = false;
  readonly address: string;
  readonly user: string;
  readonly database: TargetDatabase;
  private readonly kept: KeptConnection<NodeRedisLink>;
  private onFailure: (error: Error) => void = () => undefined;

  constructor(
    private readonly master: Master,
    private readonly settings: ClientSettings,
  ) {
    super();
    conceal(this, 'master', 'kept');
    this.address = master.address;
    this.user = master.user;
    this.database = master.database;
    const openMs = openWithinMs(settings.commandTimeoutMs);
    const withinMs = master.findWithinMs + openMs;
    const lateError = new Error(`no connection with an answer to its first commands within ${openMs} ms`);
    this.kept = new KeptConnection<NodeRedisLink>({
      ...settings,
      attempt: () => ({ withinMs, lateError, open: (signal, onLost) => this.connect(signal, onLost) }),
      onOpen: () => this.emit('ready'),
      onDown: (error) => {
        this.onFailure(error as Error);
        this.emit('close');
      },
    });
  }

  get isReady(): boolean {
    return this.kept.current?.client.isReady ?? false;
  }

  open(onFailure: (error: Error) => void): void {
    this.onFailure = onFailure;
    this.master.open({
      onMoved: () => this.kept.giveUp(new Error('the Sentinels name another master')),
      onError: (error) => this.emit('error', error),
    });
    this.kept.start();
  }

  async close(withinMs: number): Promise<void> {
    const { current } = this.kept;
    if (current && this.isReady)
      await quitWithin(this, this.settings.clock, withinMs, () => current.client.close());
    this.kept.close();
    this.master.close();
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
    inBackground(beside.open().then(onOpen), () => undefined);
    return close;
  }

  drop(): void {
    this.kept.lose(this.kept.current, new Error('the connection was silent'));
  }

  /** Counts from now on, because node-redis does not show the bytes of its connection. */
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

  private with(task: (client: NodeRedis) => Promise<unknown>): Promise<unknown> {
    const { current } = this.kept;
    return current ? task(current.client) : Promise.reject(offline());
  }

  private async connect(signal: AbortSignal, onLost: (error: unknown) => void): Promise<NodeRedisLink> {
    const pattern = await this.master.find(signal);
    const link = new NodeRedisLink(pattern, this.settings, (error) => {
      this.emit('error', error);
      onLost(error);
    });
    link.client.on('sharded-channel-moved', () => this.emit('shardsReplaced'));
    return link.open(signal);
  }
}
