import { EventEmitter } from 'node:events';
import { inBackground } from '../../../async-context/in-background.js';
import { conceal } from '../../../redaction/conceal.js';
import type { Chance } from '../../../time/chance.js';
import { reconnectDelay } from '../../common/connection/keep-alive.js';
import { isAnswer } from '../connection/redis.errors.js';
import { TargetDatabase } from '../redis.database.js';
import type { Arguments, ClientEvents, ClientSettings, RedisClient, WireKeys } from '../redis.client.js';
import { ClusterNode } from './cluster-node.js';
import { patternAt, rootPatterns, type ClusterOptions } from './cluster-options.js';
import { NO_SLOTS, readSlots, type ClusterSlots } from './cluster-slots.js';
import { addressOf, type Place } from './given-options.js';
import { offline } from './node-redis.single.js';
import type { NodeRedisPattern } from './node-redis.target.js';
import { slotOf } from './slot-of.js';

/** A node refuses a command with this error if another node executes it. Without a host the error means its own host. */
const REDIRECTION = /^(MOVED|ASK) \d+ (.*):(\d+)$/;
/** Two nodes that do not agree about a slot yet redirect a command to each other. */
const MAX_REDIRECTIONS = 5;
/** How many nodes are asked at once which master has which slots. */
const ASKED_AT_ONCE = 3;

/** A task on one node. It must write its commands before it awaits anything. */
type NodeTask = (node: ClusterNode) => Promise<unknown>;

/**
 * A cluster: the masters by slot, and a connection to each. A command goes to the master of its slot, and to another node only when
 * that master has refused it. The slots are read again after each command that was sent to a wrong node. After a lost connection
 * they are read until all masters are connected.
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
  /** The nodes by the address that the cluster tells, also those that have no slots and are about to get some. */
  private readonly nodes = new Map<string, ClusterNode>();
  private slots: ClusterSlots = NO_SLOTS;
  private readonly roots: readonly NodeRedisPattern[];
  /** The node on which this client has subscribed to the channels that are not sharded. */
  private subscriber: ClusterNode | undefined;
  private isUp = false;
  private isClosed = false;
  private reading: AbortController | undefined;
  private cancelReading: (() => void) | undefined;
  /** How many readings of the slots in a row have left a master without a connection. */
  private failures = 0;

  /**
   * @param options reads them from the client of the application, for each connection anew
   * @throws LockConfigurationError if node-redis is not found
   */
  constructor(
    private readonly options: () => ClusterOptions,
    private readonly settings: ClientSettings,
  ) {
    super();
    conceal(this, 'options', 'nodes', 'roots', 'subscriber');
    this.user = options().defaults?.username || 'default';
    this.roots = rootPatterns(options);
  }

  get isReady(): boolean {
    return this.anyReady() !== undefined;
  }

  open(): void {
    this.readSlots();
  }

  async close(withinMs: number): Promise<void> {
    this.isClosed = true;
    this.cancelReading?.();
    this.reading?.abort(offline());
    await Promise.all([...this.nodes.values()].map((node) => node.close(withinMs)));
  }

  call(command: string, args: Arguments, key?: string): Promise<unknown> {
    const task: NodeTask = (node) => node.call(command, args);
    return key === undefined ? runOn(this.anyReady(), task) : this.runAt(key, task);
  }

  evalSha(sha: string, keys: WireKeys, args: Arguments): Promise<unknown> {
    return this.runAt(keys.names[0] as string, (node) => node.evalSha(sha, keys, args));
  }

  masters(): readonly ClusterNode[] {
    const addresses = new Set(this.slots.owners);
    return [...this.nodes.values()].filter(({ place }) => addresses.has(addressOf(place)));
  }

  ownerOf(slot: number): ClusterNode | undefined {
    return this.nodes.get(this.slots.owners[slot] ?? '');
  }

  drop(): void {
    for (const node of this.nodes.values()) node.drop();
  }

  subscribe(channels: readonly string[]): Promise<unknown> {
    this.subscriber ??= this.anyReady();
    return runOn(this.subscriber, (node) => node.subscribe(channels));
  }

  unsubscribe(channel: string): Promise<unknown> {
    return runOn(this.subscriber, (node) => node.unsubscribe(channel));
  }

  subscribeSharded(channel: string): Promise<unknown> {
    return this.runAt(channel, (node) => node.subscribeSharded(channel));
  }

  unsubscribeSharded(channel: string): Promise<unknown> {
    return this.runAt(channel, (node) => node.unsubscribeSharded(channel));
  }

  pingSubscriber(): Promise<unknown> {
    return runOn(this.subscriber, (node) => node.pingSubscriber());
  }

  private async runAt(name: string, task: NodeTask): Promise<unknown> {
    const slot = slotOf(name);
    let node = this.ownerOf(slot) ?? this.anyReady();
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
        if (kind === 'MOVED') {
          this.slots.owners[slot] = addressOf(place);
          this.refreshSlots();
        }
        node = this.nodeAt(place);
        attempt = kind === 'ASK' ? asking(task) : task;
      }
    }
  }

  // --- nodes ----------------------------------------------------------------------------------------------------

  /** @returns any node that is connected */
  private anyReady(): ClusterNode | undefined {
    const ready = [...this.nodes.values()].filter(({ isReady }) => isReady);
    return ready[Math.floor(this.settings.chance.random() * ready.length)];
  }

  /** The node at `place`, also one that has just come into the cluster. */
  private nodeAt(place: Place): ClusterNode {
    return this.nodes.get(addressOf(place)) ?? this.connect(place);
  }

  private connect(place: Place): ClusterNode {
    if (this.isClosed) throw offline();
    const node = new ClusterNode(place, patternAt(this.options, place), this.settings);
    this.nodes.set(addressOf(place), node);
    node.on('error', (error) => this.emit('error', error));
    node.on('message', (channel, text) => this.emit('message', channel, text));
    node.on('shardsReplaced', () => this.emit('shardsReplaced'));
    node.on('ready', () => this.onNodeReady());
    node.on('close', () => {
      this.onNodeClose(node);
      this.refreshSlots();
    });
    node.open();
    return node;
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

  // --- slots ----------------------------------------------------------------------------------------------------

  /** Reads the slots again, after a moment in which others may ask for the same. */
  refreshSlots(): void {
    if (this.isClosed || this.cancelReading) return;
    const { clock, chance } = this.settings;
    this.cancelReading = clock.after(reconnectDelay(chance, this.failures), () => {
      this.cancelReading = undefined;
      if (!this.reading) this.readSlots();
    });
  }

  private readSlots(): void {
    const known = [...this.slots.places.values()].map((place) => patternAt(this.options, place));
    const patterns = someOf([...known, ...this.roots], this.settings.chance);
    this.reading = new AbortController();
    const adopted = readSlots(patterns, this.settings, this.reading).then((slots) => this.adopt(slots));
    const settled = adopted.finally(() => {
      this.reading = undefined;
      const masters = this.masters();
      const isWhole = masters.length > 0 && masters.every(({ isReady }) => isReady);
      this.failures = isWhole ? 0 : this.failures + 1;
      if (!isWhole) this.refreshSlots();
    });
    inBackground(settled, (error) => this.emit('error', error as Error));
  }

  private adopt(slots: ClusterSlots): void {
    if (this.isClosed) return;
    this.slots = slots;
    const addresses = new Set(slots.owners.filter((address) => address !== ''));
    for (const address of addresses) this.nodeAt(slots.places.get(address) as Place);
    for (const [address, node] of this.nodes) {
      if (addresses.has(address) || node.isBusy) continue;
      // It has no slots any more.
      this.nodes.delete(address);
      inBackground(node.close(this.settings.commandTimeoutMs), () => undefined);
      this.onNodeClose(node);
    }
    this.emit('shardsReplaced');
  }
}

function runOn(node: ClusterNode | undefined, task: NodeTask): Promise<unknown> {
  return node ? task(node) : Promise.reject(offline());
}

/** Sends `ASKING` before the command, so that the node executes it for a slot that it is about to get. */
function asking(task: NodeTask): NodeTask {
  return (node) => {
    inBackground(node.call('asking', []), () => undefined);
    return task(node);
  };
}

function someOf<T>(all: readonly T[], chance: Chance): readonly T[] {
  const places = all.map((value) => ({ value, place: chance.random() }));
  places.sort((a, b) => a.place - b.place);
  return places.slice(0, ASKED_AT_ONCE).map(({ value }) => value);
}
