import { AsyncResource } from 'node:async_hooks';
import { Subject } from 'rxjs';
import { inBackground } from '../../async/in-background.js';
import type {
  AcquireReply,
  AcquireRequest,
  ReleaseRequest,
  ReleaseReply,
  LockSnapshot,
  LockStore,
  LockStoreContext,
  LockStoreFactory,
  Notification,
  Renewal,
  RenewalReply,
  StoreState,
} from '../../port/lock-store.js';
import { QuorumOwner, type QuorumContext } from './quorum.candidacy.js';
import { noMajority, noPermits } from './quorum.errors.js';
import { newClientId, numberAt, numberOf } from './quorum.names.js';
import { QuorumNode } from './quorum.node.js';
import {
  checkNodes,
  checkQuorumOptions,
  type QuorumNodeState,
  type QuorumStoreOptions,
} from './quorum.options.js';
import { commonSnapshot } from './quorum.snapshot.js';
import { answersOf, gather, majorityOf } from './quorum.tally.js';
import { TokenSource } from './quorum.tokens.js';

/**
 * One store made of several independent ones (Redlock): a lock is held by whoever a majority of them has granted it to.
 *
 * @param nodes three or five stores that fail independently of each other, none a replica of another; each keeps its own
 * deadline per command, best far below that of a single store
 * @see https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/ for the algorithm
 */
export function quorumStore(
  nodes: readonly LockStoreFactory[],
  options: QuorumStoreOptions = {},
): LockStoreFactory {
  checkNodes(nodes);
  checkQuorumOptions(options);
  const listener = new AsyncResource('nestjs-distributed-lock.onNode');
  const onNode = (state: QuorumNodeState) => listener.runInAsyncScope(() => options.onNode?.(state));
  return { create: (context) => new QuorumStore(nodes, context, onNode) };
}

class QuorumStore implements LockStore {
  readonly name = 'quorum';
  readonly clientId = newClientId();
  readonly commandTimeoutMs: number;
  readonly notifications$ = new Subject<Notification>();
  private readonly nodes: readonly QuorumNode[];
  private readonly majority: number;
  private readonly electorate: QuorumContext;
  /** By the number of the owner. */
  private readonly candidacies = new Map<string, QuorumOwner>();
  private readonly background = new Set<Promise<unknown>>();
  private isClosed = false;

  constructor(
    factories: readonly LockStoreFactory[],
    private readonly context: LockStoreContext,
    onNode: (state: QuorumNodeState) => void,
  ) {
    const stores = openAll(factories, context);
    this.nodes = stores.map(
      (store, i) =>
        new QuorumNode(store, i + 1, (state) => {
          if (!this.isClosed) tellSafely(onNode, state);
        }),
    );
    const nodeTimeoutMs = Math.max(...stores.map((store) => store.commandTimeoutMs));
    // Who asks once may ask again for as long as one node takes.
    this.commandTimeoutMs = 2 * nodeTimeoutMs;
    this.majority = majorityOf(stores.length);
    let stays = 0;
    this.electorate = {
      nodes: this.nodes,
      majority: this.majority,
      clock: context.clock,
      tokens: new TokenSource(this.majority),
      nodeTimeoutMs,
      nextAttempt: () => ++stays,
      notify: (push) => this.notifications$.next(push),
      inBackground: (left) => this.inBackground(left),
    };
    for (const node of this.nodes) node.store.notifications$.subscribe((push) => this.onPush(node, push));
  }

  async acquire(ask: AcquireRequest): Promise<AcquireReply> {
    const { owner, claim, key } = ask;
    if (claim.kind === 'permits') throw noPermits(key);
    const number = numberOf(owner);
    const candidacy = this.candidacies.get(number) ?? new QuorumOwner(owner, this.electorate);
    this.candidacies.set(number, candidacy);
    try {
      return await candidacy.acquire(ask);
    } finally {
      if (candidacy.isIdle) this.candidacies.delete(number);
    }
  }

  renew(renewals: readonly Renewal[]): Promise<readonly RenewalReply[]> {
    return Promise.all(renewals.map((renewal) => this.renewOne(renewal)));
  }

  private async renewOne(renewal: Renewal): Promise<RenewalReply> {
    const reply = await this.candidacies.get(numberOf(renewal.owner))?.renew(renewal);
    return reply ?? { kind: 'lost' };
  }

  async release(end: ReleaseRequest): Promise<ReleaseReply> {
    const number = numberOf(end.owner);
    const candidacy = this.candidacies.get(number);
    this.candidacies.delete(number);
    return candidacy?.release(end) ?? 'not held';
  }

  async inspect(key: string): Promise<LockSnapshot | null> {
    const told = await this.askAll(key, (store) => store.inspect(key));
    return commonSnapshot(key, told, this.majority);
  }

  async forceRelease(key: string): Promise<'released' | 'not held'> {
    const replies = await this.askAll(key, (store) => store.forceRelease(key));
    const released = replies.filter((reply) => reply === 'released').length;
    return released >= this.majority ? 'released' : 'not held';
  }

  async close(): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    for (const candidacy of this.candidacies.values()) candidacy.close();
    await this.within(this.commandTimeoutMs, Promise.allSettled(this.background));
    await Promise.all(this.nodes.map(({ store }) => store.close()));
    this.notifications$.complete();
  }

  /** @throws LockStoreError when fewer than a majority answer */
  private async askAll<T>(key: string, command: (store: LockStore) => Promise<T>): Promise<T[]> {
    const outcomes = await gather(
      this.nodes.map((node) => node.hear(command(node.store))),
      (so) =>
        answersOf(so).length >= this.majority &&
        this.nodes.every((node, i) => so[i] !== undefined || node.isDown),
    );
    const answers = answersOf(outcomes);
    if (answers.length < this.majority) throw noMajority(this.nodes, outcomes, key);
    return answers;
  }

  private onPush(node: QuorumNode, push: Notification): void {
    if (push.owner === undefined) return this.notifications$.next(push);
    const { owner } = push;
    this.candidacies.get(numberAt(owner))?.onNotification(node, { ...push, owner });
  }

  private inBackground(left: Promise<unknown>): void {
    const noted: Promise<unknown> = left.catch(() => undefined).then(() => this.background.delete(noted));
    this.background.add(noted);
  }

  private async within(ms: number, done: Promise<unknown>): Promise<void> {
    let cancel = (): void => undefined;
    const timeout = new Promise<void>((resolve) => (cancel = this.context.clock.after(ms, resolve)));
    await Promise.race([done, timeout]);
    cancel();
  }
}

/** All or none: what one of them refuses leaves no connection of the others. */
function openAll(factories: readonly LockStoreFactory[], context: LockStoreContext): LockStore[] {
  const stores: LockStore[] = [];
  try {
    for (const factory of factories) {
      const node = stores.length + 1;
      const onState = (state: StoreState) => context.onState?.({ ...state, node });
      stores.push(factory.create({ ...context, onState }));
    }
    return stores;
  } catch (error) {
    for (const store of stores) inBackground(store.close(), () => undefined);
    throw error;
  }
}

function tellSafely(onNode: (state: QuorumNodeState) => void, state: QuorumNodeState): void {
  try {
    onNode(state);
  } catch {
    // Who only watches must not be able to hurt a lock.
  }
}
