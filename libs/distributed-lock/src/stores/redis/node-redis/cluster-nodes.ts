import { inBackground } from '../../../async-context/in-background.js';
import { conceal } from '../../../redaction/conceal.js';
import type { Chance } from '../../../time/chance.js';
import { reconnectDelay } from '../../common/connection/keep-alive.js';
import type { ClientSettings } from '../redis.client.js';
import { ClusterNode } from './cluster-node.js';
import { patternAt, rootPatterns, type ClusterOptions } from './cluster-options.js';
import { NO_SLOTS, readSlots, type ClusterSlots } from './cluster-slots.js';
import { addressOf, type Place } from './given-options.js';
import type { NodeRedisPattern } from './node-redis.target.js';
import { offline } from './node-redis.single.js';

/** How many nodes are asked at once which master has which slots. */
const ASKED_AT_ONCE = 3;

/** Implemented by `NodeRedisClusterClient`. */
interface NodesListener {
  onReady(): void;
  /** The connection to this node is lost, or could not be opened. */
  onClose(node: ClusterNode): void;
  onMessage(channel: string, text: string): void;
  /** Sharded channels may be on other nodes now. */
  onShardsMoved(): void;
  onError(error: Error): void;
}

/**
 * The masters of a cluster by slot, and a connection to each. The slots are read again after each command that was sent to a
 * wrong node. After a lost connection they are read until all masters are connected.
 */
export class ClusterNodes {
  /** The nodes by the address that the cluster tells. */
  private readonly nodes = new Map<string, ClusterNode>();
  private slots: ClusterSlots = NO_SLOTS;
  private readonly roots: readonly NodeRedisPattern[];
  private isClosed = false;
  private reading: AbortController | undefined;
  private cancelReading: (() => void) | undefined;
  /** How many readings in a row have left a master without a connection. */
  private failures = 0;

  /** @throws LockConfigurationError if node-redis is not found */
  constructor(
    private readonly options: () => ClusterOptions,
    private readonly settings: ClientSettings,
    private readonly listener: NodesListener,
  ) {
    conceal(this, 'options', 'nodes', 'roots');
    this.roots = rootPatterns(options);
  }

  start(): void {
    inBackground(this.read(), (error) => this.listener.onError(error as Error));
  }

  async close(withinMs: number): Promise<void> {
    this.isClosed = true;
    this.cancelReading?.();
    this.reading?.abort(offline());
    await Promise.all(this.all().map((node) => node.close(withinMs)));
  }

  /** All nodes, also those that have no slots and are about to get some. */
  all(): readonly ClusterNode[] {
    return [...this.nodes.values()];
  }

  masters(): readonly ClusterNode[] {
    const addresses = new Set(this.slots.owners);
    return this.all().filter(({ place }) => addresses.has(addressOf(place)));
  }

  /** @returns any node that is connected */
  anyReady(): ClusterNode | undefined {
    const ready = this.all().filter(({ isReady }) => isReady);
    return ready[Math.floor(this.settings.chance.random() * ready.length)];
  }

  /** @returns `undefined` where no master is known for the slot */
  ownerOf(slot: number): ClusterNode | undefined {
    return this.nodes.get(this.slots.owners[slot] ?? '');
  }

  /** A node has told that the slot is elsewhere. */
  onMoved(slot: number, place: Place): void {
    this.slots.owners[slot] = addressOf(place);
    this.readSoon();
  }

  /** The node at `place`, also one that has just come into the cluster. */
  at(place: Place): ClusterNode {
    return this.nodes.get(addressOf(place)) ?? this.connect(place);
  }

  private connect(place: Place): ClusterNode {
    if (this.isClosed) throw offline();
    const { listener } = this;
    const node = new ClusterNode(place, patternAt(this.options, place), this.settings);
    this.nodes.set(addressOf(place), node);
    const { client } = node;
    client.on('error', (error) => listener.onError(error));
    client.on('message', (channel, text) => listener.onMessage(channel, text));
    client.on('shardsReplaced', () => listener.onShardsMoved());
    client.on('ready', () => listener.onReady());
    client.on('close', () => {
      listener.onClose(node);
      this.readSoon();
    });
    client.open((error) => listener.onError(error));
    return node;
  }

  /** Reads the slots again, after a moment in which others may ask for the same. */
  readSoon(): void {
    if (this.isClosed || this.cancelReading) return;
    const { clock, chance } = this.settings;
    this.cancelReading = clock.after(reconnectDelay(chance, this.failures), () => {
      this.cancelReading = undefined;
      if (!this.reading) this.start();
    });
  }

  private async read(): Promise<void> {
    const { options, settings } = this;
    const known = [...this.slots.places.values()].map((place) => patternAt(options, place));
    const patterns = someOf([...known, ...this.roots], settings.chance);
    this.reading = new AbortController();
    try {
      const slots = await readSlots(patterns, settings, this.reading);
      if (!this.isClosed) this.adopt(slots);
    } finally {
      this.reading = undefined;
      const masters = this.masters();
      const isWhole = masters.length > 0 && masters.every(({ isReady }) => isReady);
      this.failures = isWhole ? 0 : this.failures + 1;
      if (!isWhole) this.readSoon();
    }
  }

  private adopt(slots: ClusterSlots): void {
    this.slots = slots;
    const addresses = new Set(slots.owners.filter((address) => address !== ''));
    for (const address of addresses) this.at(slots.places.get(address) as Place);
    for (const [address, node] of this.nodes) if (!addresses.has(address) && !node.isBusy) this.remove(node);
    this.listener.onShardsMoved();
  }

  /** The node has no slots any more. */
  private remove(node: ClusterNode): void {
    this.nodes.delete(addressOf(node.place));
    inBackground(node.close(this.settings.commandTimeoutMs), () => undefined);
    this.listener.onClose(node);
  }
}

function someOf<T>(all: readonly T[], chance: Chance): readonly T[] {
  const places = all.map((value) => ({ value, place: chance.random() }));
  places.sort((a, b) => a.place - b.place);
  return places.slice(0, ASKED_AT_ONCE).map(({ value }) => value);
}
