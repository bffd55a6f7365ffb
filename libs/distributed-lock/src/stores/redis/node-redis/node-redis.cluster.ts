import { EventEmitter } from 'node:events';
import { inBackground } from '../../../async-context/in-background.js';
import { conceal } from '../../../redaction/conceal.js';
import { isAnswer } from '../connection/redis.errors.js';
import { TargetDatabase } from '../redis.database.js';
import type {
  Arguments,
  ClientEvents,
  ClientSettings,
  RedisClient,
  RedisNode,
  WireKeys,
} from '../redis.client.js';
import type { ClusterNode, NodeTask } from './cluster-node.js';
import { ClusterNodes } from './cluster-nodes.js';
import type { ClusterOptions } from './cluster-options.js';
import { offline } from './node-redis.single.js';
import { slotOf } from './slot-of.js';

/** A node refuses a command with this error if another node executes it. Without a host the error means its own host. */
const REDIRECTION = /^(MOVED|ASK) \d+ (.*):(\d+)$/;
/** Two nodes that do not agree about a slot yet redirect a command to each other. */
const MAX_REDIRECTIONS = 5;

/**
 * A cluster. A command goes to the master of its slot, and to another node only when that master has refused it.
 *
 * The client subscribes to channels on any one node, because each message reaches all nodes. It subscribes to sharded
 * channels on the master of their slot.
 */
export class NodeRedisClusterClient extends EventEmitter<ClientEvents> implements RedisClient {
  readonly isCluster = true;
  readonly writesAtOnce = false;
  readonly address = 'a cluster';
  readonly user: string;
  readonly database = new TargetDatabase(() => 0);
  private readonly nodes: ClusterNodes;
  /** The node on which this client has subscribed to the channels that are not sharded. */
  private subscriber: ClusterNode | undefined;
  private isUp = false;
  private onFailure: (error: Error) => void = () => undefined;

  /** @param options reads them from the client of the application, for each connection anew */
  constructor(options: () => ClusterOptions, settings: ClientSettings) {
    super();
    conceal(this, 'nodes', 'subscriber');
    this.user = options().defaults?.username || 'default';
    this.nodes = new ClusterNodes(options, settings, {
      onReady: () => this.onNodeReady(),
      onClose: (node) => this.onNodeClose(node),
      onMessage: (channel, text) => this.emit('message', channel, text),
      onShardsMoved: () => this.emit('shardsReplaced'),
      onError: (error) => {
        this.onFailure(error);
        this.emit('error', error);
      },
    });
  }

  get isReady(): boolean {
    return this.nodes.anyReady() !== undefined;
  }

  open(onFailure: (error: Error) => void): void {
    this.onFailure = onFailure;
    this.nodes.start();
  }

  close(withinMs: number): Promise<void> {
    return this.nodes.close(withinMs);
  }

  call(command: string, args: Arguments, key?: string): Promise<unknown> {
    const task: NodeTask<unknown> = (client) => client.call(command, args);
    return key === undefined ? runOn(this.nodes.anyReady(), task) : this.runAt(key, task);
  }

  evalSha(sha: string, keys: WireKeys, args: Arguments): Promise<unknown> {
    return this.runAt(keys.names[0] as string, (client) => client.evalSha(sha, keys, args));
  }

  masters(): readonly RedisNode[] {
    return this.nodes.masters();
  }

  ownerOf(slot: number): RedisNode | undefined {
    return this.nodes.ownerOf(slot);
  }

  refreshSlots(): void {
    this.nodes.readSoon();
  }

  /** Does nothing, because `IdleProbe` asks each node of a cluster by itself. */
  askBeside(): () => void {
    return () => undefined;
  }

  drop(): void {
    for (const node of this.nodes.all()) node.drop();
  }

  /** Does nothing, because each node watches its own connection. */
  afterSilence(): () => void {
    return () => undefined;
  }

  subscribe(channels: readonly string[]): Promise<unknown> {
    this.subscriber ??= this.nodes.anyReady();
    return runOn(this.subscriber, (client) => client.subscribe(channels));
  }

  unsubscribe(channel: string): Promise<unknown> {
    return runOn(this.subscriber, (client) => client.unsubscribe(channel));
  }

  subscribeSharded(channel: string): Promise<unknown> {
    return this.runAt(channel, (client) => client.subscribeSharded(channel));
  }

  unsubscribeSharded(channel: string): Promise<unknown> {
    return this.runAt(channel, (client) => client.unsubscribeSharded(channel));
  }

  pingSubscriber(): Promise<unknown> {
    return runOn(this.subscriber, (client) => client.pingSubscriber());
  }

  private async runAt<T>(name: string, task: NodeTask<T>): Promise<T> {
    const slot = slotOf(name);
    let node = this.nodes.ownerOf(slot) ?? this.nodes.anyReady();
    let attempt = task;
    for (let redirections = 0; ; redirections++) {
      try {
        return await runOn(node, attempt);
      } catch (error) {
        const [text, kind, host, port] = (isAnswer(error) && REDIRECTION.exec(error.message)) || [];
        if (!node || text === undefined) throw error;
        if (redirections === MAX_REDIRECTIONS)
          throw new Error(`after ${redirections} redirections: ${text}`, { cause: error });
        const place = { host: host || node.place.host, port: Number(port) };
        if (kind === 'MOVED') this.nodes.onMoved(slot, place);
        node = this.nodes.at(place);
        attempt = kind === 'ASK' ? asking(task) : task;
      }
    }
  }

  private onNodeReady(): void {
    const event = this.isUp ? 'shardsReplaced' : 'ready';
    this.isUp = true;
    this.emit(event);
  }

  private onNodeClose(node: ClusterNode): void {
    this.emit('nodeClose');
    const wasSubscriber = node === this.subscriber;
    if (wasSubscriber) this.subscriber = undefined;
    const { isReady } = this;
    if (isReady && !wasSubscriber) return;
    this.isUp = isReady;
    this.emit('close');
    // The store subscribes to all channels again, on another node.
    if (isReady) this.emit('ready');
  }
}

function runOn<T>(node: ClusterNode | undefined, task: NodeTask<T>): Promise<T> {
  return node ? node.run(task) : Promise.reject(offline());
}

/** Sends `ASKING` before the command, so that the node executes it for a slot that it is about to get. */
function asking<T>(task: NodeTask<T>): NodeTask<T> {
  return (client) => {
    inBackground(client.call('asking', []), () => undefined);
    return task(client);
  };
}
