import { SimServer } from '../../kernel/server.js';
import type { Dice } from '../../kernel/dice.js';
import type { SimProcess } from '../../kernel/process.js';
import type { World } from '../backend.js';
import type { ServerEnd, Listener } from '../../network/connection.js';
import { restartMark } from '../../../../libs/distributed-lock/src/stores/redis/redis.keys.js';
import { SortedSet } from '../../redis/data/sorted-set.js';
import { RedisServer } from '../../redis/server/redis-server.js';
import { simulatedTarget } from '../../redis/socket/connector.js';
import { kindOfMessage } from './kinds.js';
import { SimulatedLine, type Request } from './simulated-line.js';

/** What a server has after a crash: every write (`appendfsync always`), nothing, or what its best replica has. */
export type AfterCrash = 'everything' | 'nothing' | 'replica';

export interface HostOptions {
  readonly afterCrash: AfterCrash;
  readonly replicas: number;
  /** The longest time that a write takes to a replica and its acknowledgement back, in ms. */
  readonly replicaLagMs: number;
  /** Told of each command, and of the end of each connection, with the server's clock in microseconds. */
  readonly onCommand?:
    ((client: number, words: readonly string[] | 'left', micros: number) => void) | undefined;
}

/** A machine with a Redis server on it, and with replicas that do nothing but follow. */
export class RedisHost extends SimServer {
  readonly redis: RedisServer;
  private readonly dice: Dice;

  constructor(
    name: string,
    private readonly world: World,
    private readonly options: HostOptions,
  ) {
    const { kernel, network } = world;
    super(name, kernel);
    this.dice = world.dice.fork(name);
    this.redis = new RedisServer(
      {
        micros: () => this.micros,
        newRunId: () => this.dice.hex(20),
        after: (ms, run) => kernel.after(ms, () => this.receive(run)),
        onCommand: (client, words) => options.onCommand?.(client, words, this.micros),
        onWrite: (length) => this.replicate(length),
      },
      options.replicas,
    );
    network.serve(this, (end) => this.accept(end));
    this.onCrash.push(() => this.redis.crash());
    this.onStart.push(() => this.redis.restart(this.lengthAfterCrash()));
  }

  private get micros(): number {
    return Math.floor(this.timeOfDay * 1000);
  }

  /** Options for `redisStore` in this process. */
  targetFor(process: SimProcess) {
    const { network } = this.world;
    return simulatedTarget(this.name, () => new SimulatedLine(network, process, this));
  }

  /** Its data is gone, or is what it was after the first part of its writes, while its connections live on. */
  forget(how: 'empty' | 'stale'): void {
    const { journal } = this.redis;
    this.redis.restore(how === 'empty' ? 0 : Math.floor(journal.length * 0.8));
  }

  /** The restart guard has had its first wait long ago. */
  hasBeenGuarded(longestLeaseMs: number): void {
    this.redis.data.put(restartMark(''), `0 ${longestLeaseMs}`);
    this.redis.commit();
  }

  /** Answers with one of the errors by which a server says that it cannot now. */
  override refuse(ms: number): void {
    const { refusals, scripting } = this.redis;
    const how = this.dice.pick(['isOutOfMemory', 'isReplica', 'isLoading', 'has lost its scripts'] as const);
    if (how === 'has lost its scripts') return scripting.flush();
    refusals[how] = true;
    this.world.kernel.after(ms, () => (refusals[how] = false));
  }

  /** By owner, with the rest of each lease in ms, as Redisson's format has them (holders.lua). */
  holdersOf(name: string): ReadonlyMap<string, number> {
    const { data } = this.redis;
    const leftOf = (key: string): number => (data.find(key)?.expiresAt ?? 0) - this.timeOfDay;
    const braced = name.includes('{') ? name : `{${name}}`;
    const { value } = data.find(name) ?? {};
    if (!(value instanceof Map)) {
      const permits = data.find(`${braced}:timeout`)?.value;
      const entries = permits instanceof SortedSet ? permits.inOrder() : [];
      return new Map(entries.map(([owner, until]) => [owner, until - this.timeOfDay]));
    }
    const leases = new Map<string, number>();
    for (const field of value.keys()) {
      const isReader = value.get('mode') === 'read' && field !== 'mode';
      leases.set(
        field.replace(/:write$/, ''),
        leftOf(isReader ? `${braced}:${field}:rwlock_timeout:1` : name),
      );
    }
    return leases;
  }

  /** What no lock leaves behind: every key but counters, the mark of the restart guard, and what is empty, or without its lock, and expires. */
  leftovers(): readonly string[] {
    const { data } = this.redis;
    const isLeft = (key: string): boolean => {
      if (/^(nest_lock|nest_lock_shared|redisson_lock)_token:|^nest_lock_guard:/.test(key)) return false;
      return !/^nest_lock_(queue|meta|holders):/.test(key) || data.find(key)?.expiresAt === undefined;
    };
    return data
      .keys()
      .filter(isLeft)
      .map((key) => `${this.name} keeps the key ${key}`);
  }

  private replicate(length: number): void {
    const { redis, options } = this;
    const { epoch } = redis;
    const acknowledge = (replica: number): void => {
      if (redis.epoch === epoch) redis.replicas.acknowledge(replica, length);
    };
    for (let i = 0; i < options.replicas; i++) {
      const lagMs = this.dice.random() * options.replicaLagMs;
      this.world.kernel.after(lagMs, () => this.receive(() => acknowledge(i)));
    }
  }

  private lengthAfterCrash(): number {
    const { journal, replicas } = this.redis;
    switch (this.options.afterCrash) {
      case 'everything':
        return journal.length;
      case 'nothing':
        return 0;
      case 'replica':
        return Math.max(...Array.from({ length: replicas.count }, (_, i) => replicas.lengthOf(i)));
    }
  }

  private accept(end: ServerEnd): Listener {
    let kind: string | undefined;
    const client = this.redis.connect(
      (bytes) => end.send(bytes, kind ? `re:${kind}` : kindOfMessage(bytes)),
      () => end.destroy(),
    );
    return {
      onMessage: (payload) => {
        const request = payload as Request;
        kind = request.kind;
        client.receive(request.bytes);
        kind = undefined;
      },
      onClose: () => this.redis.disconnect(client),
    };
  }
}
