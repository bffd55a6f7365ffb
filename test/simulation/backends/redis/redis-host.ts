import { SimServer } from '../../kernel/server.js';
import type { Dice } from '../../kernel/dice.js';
import type { SimProcess } from '../../kernel/process.js';
import type { World } from '../backend.js';
import type { ServerEnd, Listener } from '../../network/connection.js';
import type { LostLease, Loss } from '../../history/loss.js';
import { restartMark } from '../../../../libs/distributed-lock/src/redis/keys.js';
import { TranslatedEngine } from '../../redis/lua/translated/translated-engine.js';
import type { ScriptEngine } from '../../redis/lua/script-engine.js';
import { RedisServer } from '../../redis/server/redis-server.js';
import { simulatedTarget } from '../../redis/socket/connector.js';
import { KEY_PREFIXES } from '../../plan/settings.js';
import { kindOfMessage } from './kinds.js';
import { ForeignClient } from './foreign-client.js';
import type { Reply } from '../../redis/resp/reply.js';
import { happenTo, REPLICA_REPLIED } from './server-events.js';
import { holdersIn, leasesIn, type StoredLease } from './stored.js';
import { SimulatedLine, type Request } from './simulated-line.js';

/** What a server has after a crash: every write (`appendfsync always`), none, the older ones, or what a replica has. */
export type AfterCrash = 'everything' | 'nothing' | 'stale' | 'replica';

export interface HostOptions {
  readonly afterCrash: AfterCrash;
  readonly replicas: number;
  /** Of so many replicas, which are drawn at each crash, the one that is furthest ahead is promoted; default: of all. */
  readonly reachable?: number | undefined;
  /** So many replicas have each grant before its caller is let in; default 0. */
  readonly minReplicaAcks?: number | undefined;
  /** A server without its data grants nothing for so long; default 0. */
  readonly restartGuardMs?: number | undefined;
  /** Its clock is behind that of another server; default: no. */
  readonly isBehind?: boolean | undefined;
  /** The longest time that a write takes to a replica and its acknowledgement back, in ms. */
  readonly replicaLagMs: number;
  /** Now and then a replica stands still for so long at most; default: never. */
  readonly replicaStallMs?: number | undefined;
  readonly onLoss?: ((loss: Loss) => void) | undefined;
  /** Told when a client learns that fewer replicas have its write than it needs. */
  readonly onTooFew?: ((at: number) => void) | undefined;
  /** Told of each command, and of the end of each connection, with the server's clock in microseconds. */
  readonly onCommand?:
    | ((client: number, words: readonly string[] | 'left', micros: number) => void)
    | undefined;
  /** Runs its scripts; default: their translation to JavaScript. */
  readonly engine?: ScriptEngine | undefined;
}

/** One for all servers, so that each script is translated once. */
const translatedEngine = new TranslatedEngine();

/** One write in so many is the last one that a replica has for a while. */
const STALLS = 0.2;

/** What it has when it crashes or forgets. */
interface Before {
  readonly at: number;
  readonly leases: readonly StoredLease[];
}

/** A machine with a Redis server on it, and with replicas that do nothing but follow. */
export class RedisHost extends SimServer {
  readonly redis: RedisServer;
  private readonly dice: Dice;
  private crashedWith: Before | undefined;
  /** Of each replica. */
  private readonly stalledUntil: number[] = [];
  private isCalm = false;

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
        engine: options.engine ?? translatedEngine,
        onCommand: (client, words) => options.onCommand?.(client, words, this.micros),
        onWrite: (length) => this.replicate(length),
        onTooFew: () => options.onTooFew?.(kernel.now),
        onReadOnly: () => world.disturb(REPLICA_REPLIED),
      },
      options.replicas,
    );
    network.serve(this, (end) => this.accept(end));
    if (options.restartGuardMs) this.hasBeenGuarded(options.restartGuardMs);
    this.onCrash.push(() => {
      this.crashedWith = this.present();
      this.redis.crash();
    });
    this.onStart.push(() => this.restart());
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
    // A machine that is down loses what its crash says.
    if (this.state !== 'running') return;
    const before = this.present();
    this.redis.restore(how === 'empty' ? 0 : this.olderLength());
    this.noteLoss(before, false);
  }

  /** From now on its replicas keep up with it. */
  calm(): void {
    this.isCalm = true;
  }

  /** Answers with one of the errors by which a server says that it cannot now. */
  override refuse(ms: number): void {
    const { refusals, scripting } = this.redis;
    const how = this.dice.pick(['isOutOfMemory', 'isReplica', 'isLoading', 'has lost its scripts'] as const);
    if (how === 'has lost its scripts') return scripting.flush();
    refusals[how] = true;
    this.world.kernel.after(ms, () => (refusals[how] = false));
  }

  override happen(event: string): void {
    if (this.state === 'running') happenTo(this.redis, event, this.dice);
  }

  /** Executes a command of a client that is no process of the simulation. */
  execute(words: readonly string[]): Reply {
    return this.redis.execute(words);
  }

  /** A client of Redisson. */
  foreignClient(): ForeignClient {
    const { kernel } = this.world;
    return new ForeignClient(this, `${this.dice.uuid()}:1`, (ms, run) =>
      kernel.after(ms, () => this.receive(run)),
    );
  }

  /** By owner, with the rest of each lease in true ms. */
  holdersOf(name: string): ReadonlyMap<string, number> {
    const leases = holdersIn(this.redis.data, name, this.timeOfDay);
    return new Map([...leases].map(([owner, leftMs]) => [owner, this.trueMs(leftMs)]));
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

  /** The restart guard of all services has had its first wait long ago. */
  private hasBeenGuarded(longestLeaseMs: number): void {
    for (const prefix of KEY_PREFIXES) this.redis.data.put(restartMark(prefix), `0 ${longestLeaseMs}`);
    this.redis.commit();
  }

  private restart(): void {
    const { redis, options, crashedWith } = this;
    const { replicas, reachable = replicas, minReplicaAcks = 0, afterCrash } = options;
    redis.restart(this.lengthAfterCrash());
    // Its replicas follow the new master.
    this.replicate(redis.journal.length);
    const isCovered = afterCrash === 'replica' && reachable + minReplicaAcks > replicas;
    if (crashedWith) this.noteLoss(crashedWith, isCovered);
  }

  private present(): Before {
    return { at: this.world.kernel.now, leases: leasesIn(this.redis.data, this.timeOfDay) };
  }

  private noteLoss(before: Before, isCovered: boolean): void {
    const { redis, options } = this;
    const to = this.world.kernel.now;
    const kept = leasesIn(redis.data, this.timeOfDay);
    const leases = before.leases.flatMap(({ key, owner, leftMs }): LostLease[] => {
      const until = before.at + this.trueMs(leftMs);
      const left = kept.find((it) => it.key === key && it.owner === owner)?.leftMs;
      const keptUntil = left === undefined ? -Infinity : to + this.trueMs(left);
      return keptUntil < until - 1 ? [{ key, owner, until, keptUntil }] : [];
    });
    const isGuarded = Boolean(options.restartGuardMs) && !redis.data.find(restartMark(''));
    const isBehind = options.isBehind ?? false;
    options.onLoss?.({ at: before.at, to, leases, isCovered, isGuarded, isBehind });
  }

  private replicate(length: number): void {
    const { redis, options } = this;
    const { epoch } = redis;
    const { now } = this.world.kernel;
    const acknowledge = (replica: number): void => {
      if (redis.epoch === epoch) redis.replicas.acknowledge(replica, length);
    };
    for (let i = 0; i < options.replicas; i++) {
      const { replicaStallMs = 0 } = options;
      const mayStall = !this.isCalm && replicaStallMs > 0 && now >= (this.stalledUntil[i] ?? 0);
      if (mayStall && this.dice.happens(STALLS))
        this.stalledUntil[i] = now + this.dice.random() * replicaStallMs;
      const lagMs = this.dice.random() * options.replicaLagMs;
      this.world.kernel.at(Math.max(now, this.stalledUntil[i] ?? 0) + lagMs, () =>
        this.receive(() => acknowledge(i)),
      );
    }
  }

  private lengthAfterCrash(): number {
    const { journal, replicas } = this.redis;
    switch (this.options.afterCrash) {
      case 'everything':
        return journal.length;
      case 'nothing':
        return 0;
      case 'stale':
        return this.olderLength();
      case 'replica': {
        const { reachable = replicas.count } = this.options;
        const lengths = Array.from({ length: replicas.count }, (_, i) => replicas.lengthOf(i));
        while (lengths.length > reachable) lengths.splice(this.dice.int(0, lengths.length - 1), 1);
        return Math.max(0, ...lengths);
      }
    }
  }

  private olderLength(): number {
    return Math.floor(this.redis.journal.length * 0.8);
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
