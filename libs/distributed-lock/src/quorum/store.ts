import { AsyncResource } from 'node:async_hooks';
import { Subject } from 'rxjs';
import { nextMicros, systemChance } from '../common/clock.js';
import { maxOf } from '../common/collections.js';
import { ignoreFailure, promiseOf } from '../common/promises.js';
import type {
  AcquireReply,
  AcquireRequest,
  Force,
  ForceReply,
  HolderEntry,
  LockSnapshot,
  LockStore,
  LockStoreContext,
  LockStoreFactory,
  Notification,
  ReleaseReply,
  ReleaseRequest,
  Renewal,
  RenewalReply,
  StoreState,
  TakeoverNotice,
} from '../port/lock-store.js';
import { LockConfigurationError, LockStoreError } from '../port/lock.errors.js';
import { checkOptions, describeGiven, type OptionRules } from '../port/option-checks.js';
import { acquire, onNotification, renew } from './acquire.js';
import { answersOf, gather, type QuorumContext, QuorumNode } from './context.js';
import { newQuorumId, numberOfAttempt, ownerNumberOf, QuorumOwner } from './node-owner.js';
import { announceTakeover, forceRelease, inspect, list, releaseAtNodes } from './release.js';

/**
 * One store made of several independent ones (Redlock). An owner holds a lock if a majority of the stores has granted it.
 *
 * @param nodes three or five stores that fail independently of each other, none a replica of another. Each has a
 * `commandTimeoutMs` of its own, which should be far below that of a single store
 * @throws LockConfigurationError for fewer than three stores, for one given twice, and for wrong options
 * @see https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/ for the algorithm
 * @example
 * ```ts
 * import { DistributedLockModule } from 'nestjs-distributed-lock';
 * import { quorumStore } from 'nestjs-distributed-lock/quorum';
 * import { redisStore } from 'nestjs-distributed-lock/redis';
 *
 * const nodes = ['redis://a:6379', 'redis://b:6379', 'redis://c:6379'].map((url) => redisStore(url));
 * DistributedLockModule.forRoot({ store: quorumStore(nodes) });
 * ```
 */
export function quorumStore(
  nodes: readonly LockStoreFactory[],
  options: QuorumStoreOptions = {},
): LockStoreFactory {
  checkNodes(nodes);
  checkQuorumOptions(options);
  const listener = new AsyncResource('nestjs-distributed-lock.onNode');
  const notify = (state: QuorumNodeState) => listener.runInAsyncScope(() => options.onNode?.(state));
  // Ignore what the application's listener throws, because it would fail the request of a lock.
  const onNode = (state: QuorumNodeState) => ignoreFailure(promiseOf(() => notify(state)));
  return { create: (context) => new QuorumStore(nodes, context, onNode) };
}

class QuorumStore implements LockStore {
  readonly name = 'quorum';
  readonly clientId: string;
  readonly commandTimeoutMs: number;
  readonly notifications$ = new Subject<Notification>();
  private readonly context: QuorumContext;
  /** The owners, by the part of their id that the ids of all their attempts contain (`ownerNumberOf`). */
  private readonly owners = new Map<string, QuorumOwner>();
  private readonly background = new Set<Promise<unknown>>();
  private isClosed = false;
  /** Absent where one of the nodes cannot list its keys. */
  readonly list?: NonNullable<LockStore['list']>;

  constructor(
    factories: readonly LockStoreFactory[],
    context: LockStoreContext,
    onNode: (state: QuorumNodeState) => void,
  ) {
    const { clock, chance = systemChance } = context;
    this.clientId = newQuorumId(chance);
    const onState = (state: QuorumNodeState): void => {
      if (!this.isClosed) onNode(state);
    };
    const nodes = openAll(factories, context).map((store, i) => new QuorumNode(store, i + 1, onState));
    const nodeTimeoutMs = maxOf(nodes.map(({ store }) => store.commandTimeoutMs));
    // An acquire that does not wait may try twice: it may begin its last attempt just before the time of one node is over, and that
    // attempt takes as long again.
    this.commandTimeoutMs = 2 * nodeTimeoutMs;
    let attempts = 0;
    this.context = {
      nodes,
      // Any two majorities have a node in common.
      majority: Math.floor(nodes.length / 2) + 1,
      clock,
      chance,
      nodeTimeoutMs,
      minToken: 0,
      nextAttempt: () => ++attempts,
      nextTicket: () => nextMicros(clock, chance),
      notify: (notification) => this.notifications$.next(notification),
      inBackground: (work) => this.inBackground(work),
    };
    if (nodes.every(({ store }) => store.list !== undefined))
      this.list = (request) => list(this.context, request);
    for (const node of nodes)
      node.store.notifications$.subscribe((notification) => this.onNotification(node, notification));
  }

  async acquire(request: AcquireRequest): Promise<AcquireReply> {
    if (request.claim.kind === 'permits') throw noPermitsError(request.key);
    const number = ownerNumberOf(request.owner);
    const owner = this.owners.get(number) ?? new QuorumOwner(request.owner, this.context);
    this.owners.set(number, owner);
    try {
      return await acquire(owner, request);
    } finally {
      if (owner.isIdle) this.owners.delete(number);
    }
  }

  renew(renewals: readonly Renewal[]): Promise<readonly RenewalReply[]> {
    const renewed = renewals.map(async (renewal): Promise<RenewalReply> => {
      const owner = this.owners.get(ownerNumberOf(renewal.owner));
      return owner ? renew(owner, renewal) : { kind: 'lost' };
    });
    return Promise.all(renewed);
  }

  async release(request: ReleaseRequest): Promise<ReleaseReply> {
    const number = ownerNumberOf(request.owner);
    const owner = this.owners.get(number);
    this.owners.delete(number);
    return owner ? releaseAtNodes(owner, request) : 'not held';
  }

  inspect(key: string): Promise<LockSnapshot | null> {
    return inspect(this.context, key);
  }

  /** Publishes the name of this process at all nodes. @throws the error of a node when none has stored it */
  async publishHolderEntry(entry: HolderEntry): Promise<void> {
    const outcomes = await Promise.allSettled(
      this.stores.map(async (store) => store.publishHolderEntry?.(entry)),
    );
    const [failed] = outcomes.filter((outcome) => outcome.status === 'rejected');
    if (failed && outcomes.every(({ status }) => status === 'rejected')) throw failed.reason;
  }

  /** Reads the holder entry of each client, from whichever node has one. */
  async readHolderEntries(clientIds: readonly string[]): Promise<readonly (string | undefined)[]> {
    const outcomes = await Promise.allSettled(
      this.stores.map(async (store) => store.readHolderEntries?.(clientIds)),
    );
    const known = answersOf(outcomes);
    return clientIds.map((_, i) => known.map((texts) => texts?.[i]).find((text) => text !== undefined));
  }

  forceRelease(key: string, force?: Force): Promise<ForceReply> {
    return forceRelease(this.context, key, force);
  }

  announceTakeover(takeover: TakeoverNotice): Promise<'announced' | 'nobody to tell'> {
    return announceTakeover(this.context, takeover);
  }

  private get stores(): readonly LockStore[] {
    return this.context.nodes.map(({ store }) => store);
  }

  async close(): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    const { clock, nodes } = this.context;
    for (const owner of this.owners.values()) owner.leave();
    const timeout = { clock, ms: this.commandTimeoutMs };
    await gather([Promise.allSettled(this.background)], (_, isLate) => isLate, timeout);
    await Promise.all(nodes.map(({ store }) => store.close()));
    this.notifications$.complete();
  }

  private onNotification(node: QuorumNode, notification: Notification): void {
    if (notification.owner === undefined) return this.notifications$.next(notification);
    const { owner } = notification;
    const receiver = this.owners.get(numberOfAttempt(owner));
    if (receiver) onNotification(receiver, node, { ...notification, owner });
  }

  private inBackground(work: Promise<unknown>): void {
    const settled: Promise<unknown> = work.catch(() => undefined).then(() => this.background.delete(settled));
    this.background.add(settled);
  }
}

/** Opens the stores of all nodes. If a node refuses its options, closes those that are open and opens no further ones. */
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
    for (const store of stores) ignoreFailure(store.close());
    throw error;
  }
}

/** Options of `quorumStore`. */
export interface QuorumStoreOptions {
  /**
   * Called when a node stops answering, and when it answers again. While a majority answers, no lock notices the difference.
   * Runs during hand-offs, in the async context of `quorumStore(…)`, so be quick. An error that it throws is ignored.
   */
  readonly onNode?: (state: QuorumNodeState) => void;
}

/** Whether one node of a quorum can be reached. */
export interface QuorumNodeState {
  /** 1 for the first store of the list. */
  readonly node: number;
  readonly isUp: boolean;
  /** Why it is not up. */
  readonly error?: LockStoreError;
}

const MIN_NODES = 3;
const OPTION_NAMES: OptionRules<QuorumStoreOptions> = { onNode: true };

function checkQuorumOptions(options: QuorumStoreOptions): void {
  checkOptions('quorumStore', options, OPTION_NAMES);
  if (options.onNode === undefined || typeof options.onNode === 'function') return;
  throw new LockConfigurationError(
    `onNode must be a function; it was given ${describeGiven(options.onNode)}.`,
  );
}

function checkNodes(nodes: readonly LockStoreFactory[]): void {
  const isStore = (node: LockStoreFactory | undefined): boolean => typeof node?.create === 'function';
  if (!Array.isArray(nodes) || !nodes.every(isStore)) {
    const given = Array.isArray(nodes)
      ? `a list with ${describeGiven(nodes.find((node: LockStoreFactory) => !isStore(node)))} in it`
      : describeGiven(nodes);
    throw new LockConfigurationError(
      `quorumStore takes a list of stores such as [redisStore(a), redisStore(b), redisStore(c)]; it was given ${given}.`,
    );
  }
  if (nodes.length < MIN_NODES) {
    throw new LockConfigurationError(
      `A quorum takes ${MIN_NODES} nodes or more, an odd number of them; it was given ${nodes.length}. For one back end use its store as it is.`,
    );
  }
  if (new Set(nodes).size < nodes.length) {
    throw new LockConfigurationError(
      'A quorum was given one store twice: a node that grants twice would count double.',
    );
  }
}

/**
 * A quorum cannot offer permits: an owner needs one permit at two of three nodes. If each node has two permits, there are six in all, so
 * three owners could hold where only two may.
 */
function noPermitsError(key: string): LockStoreError {
  const message = `A quorum cannot count permits: a majority of its nodes would let more in than there are. Take permits of "${key}" from a single store.`;
  return new LockStoreError(message, key, 'refused');
}
