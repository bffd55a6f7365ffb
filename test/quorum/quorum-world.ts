import { quorumStore, type QuorumNodeState } from 'nestjs-distributed-lock/quorum';
import { FaultyStore, ManualClock, type Faults } from 'nestjs-distributed-lock/testing';
import { storeThatCan } from '../../libs/distributed-lock/src/port/capabilities.js';
import { LOCK } from '../../libs/distributed-lock/src/port/lock-store.js';
import { LockService } from '../../libs/distributed-lock/src/lock/lock.service.js';
import type { LockServiceOptions } from '../../libs/distributed-lock/src/lock/request/lock-options.js';
import type {
  LockStore,
  LockStoreContext,
  LockStoreFactory,
} from '../../libs/distributed-lock/src/port/lock-store.js';
import { memoryStore } from '../../libs/distributed-lock/src/memory/store.js';
import { follow } from '../support/lock-world.js';

/** Several "processes" on several nodes in memory, with one clock, and a network to each node that the test controls. */
export class QuorumWorld {
  readonly clock = new ManualClock();
  /** Of each node, for all processes; to be changed at any time. */
  readonly faults: Faults[];
  /** What processes were told of their nodes. */
  readonly told: QuorumNodeState[] = [];
  private readonly nodes: LockStoreFactory[];
  private readonly clients: LockStore[] = [];
  private readonly services: LockService[] = [];

  constructor(
    count = 3,
    private readonly makeNode: () => LockStoreFactory = memoryStore,
  ) {
    this.nodes = Array.from({ length: count }, () => new ReplaceableNode(this.makeNode));
    this.faults = this.nodes.map(() => ({}));
  }

  /** One client, as `LockService` opens it. */
  client(): LockStore {
    const client = this.store().create(this.context);
    this.clients.push(client);
    return client;
  }

  /** One client with a network of its own to each node. */
  clientBehind(faults: readonly Faults[]): LockStore {
    const client = this.store(faults).create(this.context);
    this.clients.push(client);
    return client;
  }

  service(options: Omit<Partial<LockServiceOptions>, 'store' | 'clock'> = {}): LockService {
    const service = new LockService({
      shutdownGraceMs: 0,
      ...options,
      store: this.store(),
      clock: this.clock,
    });
    service.open();
    this.services.push(service);
    return service;
  }

  /** A client of one node alone, past the quorum. */
  eye(node: number): LockStore {
    const eye = (this.nodes[node] as LockStoreFactory).create(this.context);
    this.clients.push(eye);
    return eye;
  }

  /** Nothing reaches the node any more, not even what was under way, and nothing comes back. */
  cut(node: number): void {
    (this.nodes[node] as ReplaceableNode).isAway = true;
    Object.assign(this.faults[node] as Faults, {
      command: () => ({ executedAfterMs: [], repliedAfterMs: 'never' }),
      notification: () => [],
    });
  }

  mend(node: number): void {
    (this.nodes[node] as ReplaceableNode).isAway = false;
    delete this.faults[node]?.command;
    delete this.faults[node]?.notification;
  }

  /** The node starts again without anything of what it knew, and hears nobody who was connected before. */
  forget(node: number): void {
    (this.nodes[node] as ReplaceableNode).forget(this.context);
  }

  /** Closes all, and lets what is left to do be done. @throws when something keeps a timer after that */
  async close(): Promise<void> {
    const closables = [...this.services, ...this.clients];
    const closed = follow(Promise.all(closables.map((it) => it.close())));
    for (let i = 0; i < 100 && closed.state === 'pending'; i++) await this.clock.advance(1000);
    await closed.promise;
    await this.clock.advance(60_000);
    if (this.clock.pendingTimers > 0) throw new Error(`${this.clock.pendingTimers} timers are left`);
  }

  private store(faults: readonly Faults[] = this.faults): LockStoreFactory {
    const nodes = this.nodes.map((node, i) => new FaultyStore(node, faults[i] as Faults));
    return quorumStore(nodes, { onNode: (state) => this.told.push(state) });
  }

  private get context(): LockStoreContext {
    return { clock: this.clock, keyPrefix: '', watchdogTimeoutMs: 30_000 };
  }
}

/** A node whose memory can be replaced under its clients. */
class ReplaceableNode implements LockStoreFactory {
  private readonly forgetters: (() => void)[] = [];
  private memory: LockStoreFactory;
  isAway = false;

  constructor(private readonly make: () => LockStoreFactory) {
    this.memory = make();
  }

  create(context: LockStoreContext): LockStore {
    let inner = this.memory.create(context);
    const { clientId, name, commandTimeoutMs, notifications$: pushes$ } = inner;
    this.forgetters.push(() => {
      inner = this.memory.create(context);
    });
    const hear = <T>(command: () => Promise<T>): Promise<T> =>
      this.isAway ? new Promise<never>(() => undefined) : command();
    return {
      name,
      clientId,
      commandTimeoutMs,
      notifications$: pushes$,
      acquire: (ask) => hear(() => inner.acquire(ask)),
      renew: (renewals) => hear(() => inner.renew(renewals)),
      release: (end) => hear(() => inner.release(end)),
      inspect: (key) => inner.inspect(key),
      forceRelease: (key, owner) => storeThatCan(inner, 'force').forceRelease(key, owner),
      announceTakeover: (takeover) => storeThatCan(inner, 'takeover').announceTakeover(takeover),
      close: () => inner.close(),
    };
  }

  forget(context: LockStoreContext): void {
    this.memory = this.make();
    // As a server's clock does, its counter has gone on meanwhile.
    const client = this.memory.create(context);
    const owner = `${client.clientId}:1`;
    const tokens = 1 + Math.ceil(context.clock.now() * 1000);
    void client.acquire({ key: 'clock', owner, claim: LOCK, leaseMs: 1, mayWait: false, ticket: 0, tokens });
    void client.close();
    for (const forget of this.forgetters) forget();
  }
}
