// The lock store of memory, SQL, etcd and ZooKeeper, which keep the whole state of a key as one document: docs/document-stores.md
import { Subject } from 'rxjs';
import { Delays, systemChance } from '../common/clock.js';
import { RebuiltMap } from '../common/collections.js';
import { ignoreFailure, inBackground } from '../common/promises.js';
import { type OwnerRequests, RequestsByOwner } from '../connection/owner-requests.js';
import { type ExecutedRelease, ReliableRelease } from '../connection/reliable-release.js';
import { ServerClock } from '../connection/server-clock.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type AttachRequest,
  type Force,
  type ForceReply,
  type HolderEntry,
  type KeyPage,
  type ListRequest,
  type LockSnapshot,
  type LockStore,
  type LockStoreContext,
  type Notification,
  placeholderOf,
  type ReleaseReply,
  type ReleaseRequest,
  type Renewal,
  type RenewalReply,
  type TakeoverNotice,
} from '../port/lock-store.js';
import { LockStoreError } from '../port/lock.errors.js';
import { leaseValidity, SILENT_WAITER_MS } from '../port/timing.js';
import { snapshotsOf } from '../port/capabilities.js';
import type { Reading } from './document.js';
import type { AcquireOutcome, ActingClient, KeyState } from './key-state.js';
import { Lane, type LaneContext } from './lane.js';
import { SessionLeases } from './leases.js';
import { type Register, TimedRegister } from './timed-register.js';

/** After messages may have been lost, this many held keys are read at a time, so that callers' requests wait for few of these reads. */
const READ_TOGETHER = 100;

/** A lock store on top of a register. Has one lane for each key that this client uses. */
export class DocumentStore implements LockStore {
  readonly name: string;
  readonly clientId: string;
  readonly attempted: Promise<void> | undefined;
  readonly commandTimeoutMs: number;
  readonly notifications$ = new Subject<Notification>();
  private readonly lanes = new RebuiltMap<string, Lane>();
  private readonly owners = new RequestsByOwner();
  private readonly releases: ReliableRelease;
  private readonly delays: Delays;
  private readonly timed: TimedRegister;
  private readonly leases: SessionLeases | undefined;
  private readonly client: ActingClient & { minToken: number };
  private readonly laneContext: LaneContext;
  /** Absent on etcd and ZooKeeper, where the session of the client that detached a lock holds it. */
  readonly attach?: (request: AttachRequest) => Promise<AcquireReply>;
  /** Lanes with holders whose documents are still to be read again, because messages may have been lost. */
  private readonly unread = new Set<Lane>();
  private isClosed = false;

  constructor(
    { name, clientId }: { readonly name: string; readonly clientId: string },
    private readonly register: Register,
    private readonly context: LockStoreContext,
  ) {
    const { clock, chance = systemChance } = context;
    const { attempted, commandTimeoutMs, initialLeaseMs } = register;
    this.name = name;
    this.clientId = clientId;
    this.attempted = attempted;
    this.commandTimeoutMs = commandTimeoutMs;
    const serverClock = new ServerClock(clock);
    const { owners } = this;
    this.releases = new ReliableRelease(owners, { clock, chance, commandTimeoutMs });
    const delays = (this.delays = new Delays(clock));
    const leases = (this.leases = register.sessionUntil && this.newLeases(register.sessionUntil));
    if (!leases) this.attach = (request) => this.acquireBy(request, (state) => state.attach(request));
    const client = (this.client = {
      clientId,
      minToken: 0,
      nonce: chance.hex(8),
      initialLeaseMs,
      areRenewalsWritten: !leases,
      isGone: (other: string) => register.isGone?.(other) ?? false,
    });
    this.timed = new TimedRegister({ register, client, owners, serverClock, clock });
    const shared = { clock, chance, delays, client, serverClock, leases };
    this.laneContext = {
      ...shared,
      register: this.timed,
      notify: (notification) => this.notify(notification),
      watch: (name, interest) => register.watch?.(name, interest),
      onIdle: (name) => this.lanes.delete(name),
    };
    register.listen({
      onReading: (name, reading) => this.onReading(name, reading),
      onTime: (now, sentAt) => this.timed.onTime(now, sentAt),
      onGap: () => this.onGap(),
      onSessionEnd: () => {
        for (const lane of this.lanes.values()) lane.onSessionEnd();
        this.notify({ kind: 'recheck', afterMs: 0 });
      },
    });
  }

  get address(): string | undefined {
    return this.register.address;
  }

  acquire(request: AcquireRequest): Promise<AcquireReply> {
    const reply = this.acquireBy(request, (state) => state.acquire(request));
    // The back end may have stored the owner's note before it refused a later request for the same task. Release the owner, so
    // that nobody grants it the lock.
    const undo = (error: unknown): void => {
      if (isRefused(error)) ignoreFailure(this.release(request));
    };
    if (request.mayWait) inBackground(reply, undo);
    return reply;
  }

  renew(renewals: readonly Renewal[]): Promise<readonly RenewalReply[]> {
    return Promise.all(renewals.map((renewal) => this.renewOne(renewal)));
  }

  release(request: ReleaseRequest): Promise<ReleaseReply> {
    const { key, owner } = request;
    const released = this.releases.run(request, (requests, onReply, onError) => {
      this.releaseOnce(request, requests).then(onReply, onError);
    });
    return released.catch((error: unknown) => {
      // The owner's lease and ticket have run out by now, so forget the owner. On etcd and ZooKeeper no server ends them: there
      // `leases` goes on trying to remove the owner from the document.
      this.laneOf(key).forget(owner);
      this.leases?.start(key, owner, 0);
      throw error;
    });
  }

  inspect(key: string): Promise<LockSnapshot | null> {
    return this.laneOf(key).run((state) => {
      const snapshot = state.snapshot(key);
      return () => snapshot;
    });
  }

  forceRelease(key: string, { owners }: Force = {}): Promise<ForceReply> {
    return this.laneOf(key).run((state) => {
      const reply = state.forceRelease(owners);
      return () => reply;
    });
  }

  announceTakeover(takeover: TakeoverNotice): Promise<'announced' | 'nobody to tell'> {
    return this.laneOf(takeover.key).run((state) => {
      const holds = state.announceTakeover(takeover);
      return () => (holds ? 'announced' : 'nobody to tell');
    });
  }

  publishHolderEntry(entry: HolderEntry): Promise<void> {
    return this.register.publishHolderEntry(entry);
  }

  readHolderEntries(clientIds: readonly string[]): Promise<readonly (string | undefined)[]> {
    return this.register.readHolderEntries(clientIds);
  }

  async list({ prefix, limit, cursor }: ListRequest): Promise<KeyPage> {
    const request = { prefix: this.nameOf(prefix), after: cursor, most: limit };
    const { names, after } = await this.register.list(request);
    const { length } = this.context.keyPrefix;
    const keys = names.map((name) => name.slice(length));
    const found = await snapshotsOf(keys, (key) => this.inspect(key));
    return { ...found, ...(after !== undefined && { cursor: after }) };
  }

  /** First removes all waiting owners from their queues: another client could grant one of them the lock, and nobody would release it. */
  async close(): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    const leaving = [...this.lanes.values()].flatMap((lane) =>
      lane.owners.waiting.map((owner) =>
        lane.run((state) => {
          state.release({ owner });
          return () => lane.owners.onGone(owner);
        }),
      ),
    );
    await Promise.race([Promise.allSettled(leaving), this.delays.wait(this.commandTimeoutMs)]);
    const hasEntries = (await this.leases?.close()) ?? false;
    this.releases.close();
    this.delays.endAll();
    await this.register.close(hasEntries);
    this.notifications$.complete();
  }

  private acquireBy(
    request: AcquireRequest,
    change: (state: KeyState) => AcquireOutcome,
  ): Promise<AcquireReply> {
    const { key, owner, leaseMs } = request;
    const lane = this.laneOf(key);
    return lane.run(
      (state) => {
        this.leases?.extend(owner, Math.max(leaseMs, SILENT_WAITER_MS));
        const outcome = change(state);
        return ({ sentAt, waiting, validUntil: sessionUntil }): AcquireReply => {
          if (outcome.kind === 'queued') lane.owners.onQueued(owner, leaseMs);
          // It may have left a note.
          if (outcome.kind === 'busy') lane.owners.onGone(owner);
          if (outcome.kind !== 'granted') return outcome;
          const { kind, token, lastToken, confirmed } = outcome;
          lane.owners.onGranted(owner, leaseMs, token);
          this.leases?.onHeld({ key, owner, token, lastToken, leaseMs, sentAt });
          this.onToken(lastToken);
          const validUntil = Math.min(leaseValidity(sentAt, leaseMs), sessionUntil);
          return { kind, token, lastToken, waiting, confirmed, validUntil };
        };
      },
      { request },
    );
  }

  private releaseOnce(
    request: ReleaseRequest,
    { hasUnanswered: mayHaveNote }: OwnerRequests,
  ): Promise<ExecutedRelease> {
    const { key, holdUntil = 0, flush } = request;
    const { clock } = this.context;
    const lane = this.laneOf(key);
    return lane.run(
      (state) => {
        const holdMs = holdUntil > 0 ? holdUntil - clock.now() : 0;
        const wasHolder = state.release(request, { holdMs, mayHaveNote });
        // Start the placeholder's lease now: if the reply is lost, the repeated release no longer finds the owner, and would not start it.
        if (wasHolder && holdMs > 0) this.leases?.start(key, placeholderOf(request.owner), holdMs);
        return ({ executedAt }) => {
          this.onReleased(lane, request);
          return { wasHolder, executedAt };
        };
      },
      { mayWait: flush === undefined, isRelease: true },
    );
  }

  private renewOne(renewal: Renewal): Promise<RenewalReply> {
    const { key, owner, leaseMs, token } = renewal;
    const lane = this.laneOf(key);
    const reply = lane.run((state) => {
      this.leases?.extend(owner, leaseMs);
      const outcome = state.renew(renewal);
      return ({ sentAt, waiting, validUntil }): RenewalReply => {
        if (outcome === 'lost') {
          lane.owners.onLost(owner, token);
          return { kind: 'lost' };
        }
        lane.owners.onRenewed(owner, leaseMs);
        const { lastToken } = outcome;
        this.leases?.onHeld({ key, owner, token, lastToken, leaseMs, sentAt });
        // The renewal is written, but the session may end at any moment. If we replied `renewed` with an end in the past, the
        // core would renew again at once, over and over.
        if (validUntil <= this.context.clock.now())
          return { kind: 'unknown', error: sessionInDoubtError(key) };
        return { kind: 'renewed', validUntil: Math.min(leaseValidity(sentAt, leaseMs), validUntil), waiting };
      };
    });
    return reply.catch((error: LockStoreError) => ({ kind: 'unknown', error }));
  }

  private onToken(token: number): void {
    if (!this.register.mayLoseWrites) return;
    this.client.minToken = Math.max(this.client.minToken, token);
  }

  /** Forgets the owner. The release may have given its unused tokens back, so this client no longer counts them as seen. */
  private onReleased(lane: Lane, { owner, used }: ReleaseRequest): void {
    lane.owners.onGone(owner);
    if (used?.lastToken === this.client.minToken) this.client.minToken = used.token;
  }

  private newLeases(sessionUntil: () => number): SessionLeases {
    const { clock, watchdogTimeoutMs } = this.context;
    const { clientId, commandTimeoutMs } = this;
    return new SessionLeases(
      {
        clientId,
        clock,
        commandTimeoutMs,
        watchdogTimeoutMs,
        holds: (key, owner, token) => this.lanes.get(this.nameOf(key))?.owners.holds(owner, token) ?? false,
        end: ({ key, owner, isOver, onEnded }) => {
          const ended = this.laneOf(key).run((state) => {
            if (!isOver()) return () => undefined;
            state.release({ owner });
            return onEnded;
          });
          ignoreFailure(ended);
        },
        notify: (notification) => this.notify(notification),
      },
      sessionUntil,
    );
  }

  /** Called with a document that another client has written. */
  private onReading(name: string, reading: Reading): void {
    const lane = this.lanes.get(name);
    if (!lane) {
      const key = name.slice(this.context.keyPrefix.length);
      return this.leases?.onHolders(key, reading.document.holders);
    }
    lane.onReading(this.timed.arrived(reading));
    lane.closeIfIdle();
  }

  /** Called when messages may have been lost. Makes all waiters recheck, and reads the documents of all holders again. */
  private onGap(): void {
    this.notify({ kind: 'recheck', afterMs: 0 });
    const isReading = this.unread.size > 0;
    for (const lane of this.lanes.values()) if (lane.owners.hasHolder) this.unread.add(lane);
    if (!isReading) ignoreFailure(this.readHeldAgain());
  }

  private async readHeldAgain(): Promise<void> {
    while (this.unread.size > 0 && !this.isClosed) {
      const part: Lane[] = [];
      for (const lane of this.unread) {
        part.push(lane);
        // Remove the lane before the read, so that messages that are lost during the read can add it again.
        this.unread.delete(lane);
        if (part.length === READ_TOGETHER) break;
      }
      await Promise.all(part.filter(({ owners }) => owners.hasHolder).map((lane) => lane.readAgain()));
    }
  }

  private laneOf(key: string): Lane {
    const name = this.nameOf(key);
    let lane = this.lanes.get(name);
    if (!lane) this.lanes.set(name, (lane = new Lane(name, key, this.laneContext)));
    return lane;
  }

  private nameOf(key: string): string {
    return this.context.keyPrefix + key;
  }

  /**
   * Notifies the core in a microtask. In memory, its listeners would otherwise run inside another client's call, which never
   * happens with a server.
   */
  private notify(notification: Notification): void {
    if (notification.kind === 'granted') this.onToken(notification.lastToken);
    queueMicrotask(() => this.notifications$.next(notification));
  }
}

function sessionInDoubtError(key: string): LockStoreError {
  const message = `Could not renew "${key}": it is held, but no keep-alive of this client's session was answered for so long that the session may end. The next one may be.`;
  return new LockStoreError(message, key, 'unknown');
}

function isRefused(error: unknown): boolean {
  return error instanceof LockStoreError && error.reason === 'refused';
}
