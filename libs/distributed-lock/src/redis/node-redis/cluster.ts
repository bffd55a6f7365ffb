import { EventEmitter } from 'node:events';
import { type Chance, giveUpAfter } from '../../common/clock.js';
import { unlessAborted } from '../../common/listeners.js';
import { ignoreFailure, inBackground } from '../../common/promises.js';
import { conceal } from '../../common/redaction.js';
import { Openings } from '../../connection/kept-connection.js';
import { ReplyDeadline } from '../../connection/reply-deadline.js';
import { reconnectDelay } from '../../connection/timing.js';
import { ClientDatabase } from '../client.js';
import type { Arguments, ClientEvents, ClientSettings, RedisClient, WireKeys } from '../client.js';
import { isAnswer } from '../errors.js';
import { hashTag } from '../keys.js';
import { addressOf, type ClusterOptions, patternAt, type Place, rootPatterns } from './given-options.js';
import { NodeRedisLink, openWithinMs } from './link.js';
import { offlineError, OneServer } from './single.js';
import type { NodeRedis, NodeRedisPattern } from './target.js';

/** A node refuses a command with this error if another node executes it. Without a host the error means its own host. */
const REDIRECTION = /^(MOVED|ASK) \d+ (.*):(\d+)$/;
/** Two nodes that do not agree about a slot yet redirect a command to each other. */
const MAX_REDIRECTIONS = 5;
/** How many nodes are asked at once which master has which slots. */
const ASKED_AT_ONCE = 3;

/**
 * Sends a command to one node. It must write the command before it awaits anything, because an `ASKING` applies only to the command right
 * behind it.
 */
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
  readonly database = new ClientDatabase(() => 0);
  /** The nodes by the address that the cluster announces. Includes nodes that are about to get their first slots. */
  private readonly nodes = new Map<string, ClusterNode>();
  private slots: ClusterSlots = NO_SLOTS;
  private readonly roots: readonly NodeRedisPattern[];
  /** The node on which this client has subscribed to the channels that are not sharded. */
  private subscriber: ClusterNode | undefined;
  private isUp = false;
  private isClosed = false;
  private reading: AbortController | undefined;
  private cancelReading: (() => void) | undefined;
  /**
   * How many times in a row the slots were read and some master still had no connection. The delay before the next reading grows with it.
   */
  private failures = 0;

  /**
   * @param options returns the options that the application's client has now; called for each new connection
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
    this.reading?.abort(offlineError());
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

  /** @returns any node that is connected */
  private anyReady(): ClusterNode | undefined {
    const ready = [...this.nodes.values()].filter(({ isReady }) => isReady);
    return ready[Math.floor(this.settings.chance.random() * ready.length)];
  }

  /** The node at `place`. Connects to a node that has just come into the cluster. */
  private nodeAt(place: Place): ClusterNode {
    return this.nodes.get(addressOf(place)) ?? this.connect(place);
  }

  private connect(place: Place): ClusterNode {
    if (this.isClosed) throw offlineError();
    const node = new ClusterNode(place, patternAt(place, this.options), this.settings);
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
    // The node with the subscriptions is gone, and others are connected. `close` and `ready` make the store subscribe again, on another
    // node.
    if (isReady) this.emit('ready');
  }

  /** Reads the slots again after a short delay, so that several callers share one reading. */
  refreshSlots(): void {
    if (this.isClosed || this.cancelReading) return;
    const { clock, chance } = this.settings;
    this.cancelReading = clock.after(reconnectDelay(chance, this.failures), () => {
      this.cancelReading = undefined;
      if (!this.reading) this.readSlots();
    });
  }

  private readSlots(): void {
    const known = [...this.slots.places.values()].map((place) => patternAt(place, this.options));
    const patterns = someOf([...known, ...this.roots], this.settings.chance);
    this.reading = new AbortController();
    const reading = readSlots(patterns, this.settings, this.reading).then((slots) => this.onSlots(slots));
    const settled = reading.finally(() => {
      this.reading = undefined;
      const masters = this.masters();
      const isWhole = masters.length > 0 && masters.every(({ isReady }) => isReady);
      this.failures = isWhole ? 0 : this.failures + 1;
      if (!isWhole) this.refreshSlots();
    });
    inBackground(settled, (error) => this.emit('error', error as Error));
  }

  private onSlots(slots: ClusterSlots): void {
    if (this.isClosed) return;
    this.slots = slots;
    const addresses = new Set(slots.owners.filter((address) => address !== ''));
    for (const address of addresses) this.nodeAt(slots.places.get(address) as Place);
    for (const [address, node] of this.nodes) {
      if (addresses.has(address) || node.isBusy) continue;
      // The cluster does not list this node any more.
      this.nodes.delete(address);
      ignoreFailure(node.close(this.settings.commandTimeoutMs));
      this.onNodeClose(node);
    }
    this.emit('shardsReplaced');
  }
}

function runOn(node: ClusterNode | undefined, task: NodeTask): Promise<unknown> {
  return node ? task(node) : Promise.reject(offlineError());
}

/** Sends `ASKING` before the command, so that the node executes it for a slot that it is about to get. */
function asking(task: NodeTask): NodeTask {
  return (node) => {
    ignoreFailure(node.call('asking', []));
    return task(node);
  };
}

function someOf<T>(all: readonly T[], chance: Chance): readonly T[] {
  const places = all.map((value) => ({ value, place: chance.random() }));
  places.sort((a, b) => a.place - b.place);
  return places.slice(0, ASKED_AT_ONCE).map(({ value }) => value);
}

const SLOTS = 16_384;
/** CRC-16/XMODEM, as the specification of Redis Cluster has it. */
const POLYNOMIAL = 0x1021;

/** The slot of a cluster that a key or a sharded channel lies in. */
export function slotOf(name: string): number {
  let crc = 0;
  for (const byte of Buffer.from(hashTag(name) ?? name)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000 ? (crc << 1) ^ POLYNOMIAL : crc << 1) & 0xffff;
  }
  return crc % SLOTS;
}

/** Which master has which slots, by the addresses that the cluster announces. */
interface ClusterSlots {
  /** The address of the master of each slot; empty for a slot that has none. */
  readonly owners: string[];
  /** All masters and replicas, by address. */
  readonly places: ReadonlyMap<string, Place>;
}

const NO_SLOTS: ClusterSlots = { owners: [], places: new Map() };

type SlotsReply = readonly (readonly [
  first: number,
  last: number,
  ...nodes: [host: string | null, port: number][],
])[];

/**
 * Asks several nodes at once, each on a connection of its own, which is closed again. The first reply counts.
 *
 * @param end ends it early; aborted when it has settled
 */
function readSlots(
  patterns: readonly NodeRedisPattern[],
  settings: ClientSettings,
  end: AbortController,
): Promise<ClusterSlots> {
  const { signal } = end;
  const withinMs = openWithinMs(settings.commandTimeoutMs);
  const lateError = new Error(`no node of the cluster has told its slots within ${withinMs} ms`);
  const cancel = giveUpAfter(settings.clock, withinMs, () => end.abort(lateError));
  const first = Promise.any(patterns.map((pattern) => ask(pattern, settings, signal)));
  const firstOrError = first.catch(({ errors: [error] }: AggregateError) => Promise.reject(error as Error));
  // Reject as soon as the signal aborts, because the promise of an aborted attempt of node-redis may never settle.
  return unlessAborted(signal, firstOrError).finally(() => {
    cancel();
    end.abort();
  });
}

async function ask(
  pattern: NodeRedisPattern,
  settings: ClientSettings,
  signal: AbortSignal,
): Promise<ClusterSlots> {
  const link = new NodeRedisLink(pattern, settings, () => undefined);
  const { client } = await link.open(signal);
  const reply = (await client.sendCommand(['CLUSTER', 'SLOTS'])) as SlotsReply;
  if (reply.length === 0) throw new Error('a node of the cluster knows no master with slots');
  return slotsIn(reply, client.options?.socket?.host ?? 'localhost');
}

/** Reads a reply of `CLUSTER SLOTS`. @param asked the host of the node that replied, for a node that does not know its own host */
function slotsIn(reply: SlotsReply, asked: string): ClusterSlots {
  const owners = Array.from({ length: SLOTS }, () => '');
  const places = new Map<string, Place>();
  for (const [first, last, ...nodes] of reply) {
    const found = nodes.map(([host, port]) => ({ host: host || asked, port }));
    for (const place of found) places.set(addressOf(place), place);
    owners.fill(addressOf(found[0] as Place), first, last + 1);
  }
  return { owners, places };
}

/**
 * One server of a cluster, on a connection of its own. The connection is replaced if it has brought no reply for
 * `commandTimeoutMs`. A command waits for a connection for the same time at most, because no other server can execute it.
 */
class ClusterNode extends OneServer {
  private readonly inFlight = new Set<{ readonly since: number }>();
  private readonly deadline: ReplyDeadline<{ readonly since: number }>;
  private readonly openings: Openings<void>;

  /** @param place the address of the node, as the cluster announces it */
  constructor(
    readonly place: Place,
    pattern: NodeRedisPattern,
    settings: ClientSettings,
  ) {
    super(pattern, settings);
    this.openings = new Openings(settings.clock);
    this.deadline = new ReplyDeadline({
      ...settings,
      unanswered: () => this.inFlight,
      onDue: (isDue) => {
        if ([...this.inFlight].some(isDue)) this.drop();
      },
    });
    this.on('ready', () => this.openings.onOpen());
    this.on('close', () => this.openings.refuse(offlineError));
  }

  get isBusy(): boolean {
    return this.inFlight.size + this.openings.size > 0;
  }

  override async close(withinMs: number): Promise<void> {
    this.openings.refuse(offlineError);
    await super.close(withinMs);
    this.deadline.stop();
  }

  protected override async with(task: (client: NodeRedis) => Promise<unknown>): Promise<unknown> {
    const { clock, commandTimeoutMs: withinMs } = this.settings;
    if (!this.isReady) await this.openings.wait({ key: undefined, withinMs, lateError: offlineError });
    const request = { since: clock.now() };
    this.inFlight.add(request);
    this.deadline.start();
    try {
      const reply = await super.with(task);
      this.deadline.onReply();
      return reply;
    } catch (error) {
      if (isAnswer(error)) this.deadline.onReply();
      throw error;
    } finally {
      this.inFlight.delete(request);
    }
  }
}
