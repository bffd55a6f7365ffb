import { Subject } from 'rxjs';
import { inBackground } from '../../async/in-background.js';
import type {
  AcquireReply,
  AcquireRequest,
  Grant,
  InTheWay,
  LockSnapshot,
  LockStore,
  LockStoreContext,
  Notification,
  ReleaseReply,
  ReleaseRequest,
  Renewal,
  RenewalReply,
} from '../../port/lock-store.js';
import type { LockStoreError } from '../../port/lock.errors.js';
import { leaseValidity } from '../../port/lease-validity.js';
import { Delays } from '../../time/delays.js';
import { CertainReleases, type ExecutedRelease } from '../common/certain-releases.js';
import { OwnerStates } from '../common/owner-states.js';
import { ServerClock } from '../common/server-clock.js';
import type { Stepper } from './key-state.js';
import { LaneOwners } from './lane-owners.js';
import { Lane, type LaneContext } from './lane.js';
import type { Register } from './register.js';
import { TimedRegister, type Seen } from './timed-register.js';

/** Locks in a register: one document for each key, one lane for each key that this client uses. */
export class DocumentStore implements LockStore {
  readonly address?: string;
  readonly commandTimeoutMs: number;
  readonly notifications$ = new Subject<Notification>();
  private readonly lanes = new Map<string, Lane>();
  private readonly owners = new OwnerStates();
  private readonly serverClock: ServerClock;
  private readonly releases: CertainReleases;
  private readonly delays: Delays;
  private readonly timed: TimedRegister;
  private readonly stepper: Stepper & { minToken: number };
  private readonly laneContext: LaneContext;
  private isClosed = false;

  constructor(
    readonly name: string,
    readonly clientId: string,
    private readonly register: Register,
    private readonly context: LockStoreContext,
  ) {
    const { clock } = context;
    const { address, commandTimeoutMs, initialLeaseMs } = register;
    if (address !== undefined) this.address = address;
    this.commandTimeoutMs = commandTimeoutMs;
    this.serverClock = new ServerClock(clock);
    this.releases = new CertainReleases(this.owners, clock, commandTimeoutMs);
    this.delays = new Delays(clock);
    this.stepper = {
      clientId,
      minToken: 0,
      initialLeaseMs,
      isGone: (client) => register.isGone?.(client) ?? false,
    };
    this.timed = new TimedRegister(register, this.stepper, this.owners, this.serverClock, clock);
    this.laneContext = {
      register: this.timed,
      clock,
      delays: this.delays,
      stepper: this.stepper,
      notify: (notification) => this.notify(notification),
      watch: (name, interest) => register.watch?.(name, interest),
      onIdle: (name) => this.lanes.delete(name),
    };
    register.listen({
      onReading: (name, reading) => {
        const lane = this.lanes.get(name);
        lane?.onSeen(this.timed.arrived(reading));
        lane?.closeIfIdle();
      },
      onTime: (now, sentAt) => this.timed.onTime(now, sentAt),
      onGap: () => this.notify({ kind: 'recheck', afterMs: 0 }),
    });
  }

  async acquire(request: AcquireRequest): Promise<AcquireReply> {
    const { key, owner, leaseMs, waitMs } = request;
    const lane = this.laneOf(key);
    try {
      const { outcome, sentAt, waiting } = await lane.run((state) => state.acquire(request), {
        request,
        onExecuted: (reply) => {
          if (reply.kind === 'queued') lane.owners.onQueued(owner, leaseMs);
          if (reply.kind === 'granted') this.onGranted(lane, request, reply);
        },
      });
      return outcome.kind === 'granted'
        ? { ...outcome, waiting, validUntil: leaseValidity(sentAt, leaseMs) }
        : outcome;
    } catch (error) {
      // The request was refused after its owner had left a note.
      if (waitMs > 0 && (error as LockStoreError).reason === 'refused') this.undo(request);
      throw error;
    }
  }

  async acquireAll(requests: readonly AcquireRequest[]): Promise<readonly Grant[] | InTheWay | null> {
    const names = requests.map(({ key }) => this.nameOf(key));
    // Each further try follows the end of a lease in the way.
    for (let tries = 0; tries <= requests.length; tries++) {
      const reply = await this.timed.takeAll(names, requests);
      if (!reply) return null;
      if (!('index' in reply)) return requests.map((request, i) => this.taken(request, reply[i] as Seen));
      const { key } = requests[reply.index] as AcquireRequest;
      const lane = this.laneOf(key);
      lane.onSeen(reply.seen);
      const { outcome: isFree } = await lane.run((state) => state.settle().snapshot(key) === null);
      if (!isFree || tries === requests.length) return { key };
    }
    return null;
  }

  renew(renewals: readonly Renewal[]): Promise<readonly RenewalReply[]> {
    return Promise.all(renewals.map((renewal) => this.renewOne(renewal)));
  }

  async release(request: ReleaseRequest): Promise<ReleaseReply> {
    const { key, owner } = request;
    try {
      return await this.releases.run(request, () => () => this.releaseOnce(request));
    } catch (error) {
      // Its lease and its ticket are over by now.
      this.laneOf(key).forget(owner);
      throw error;
    }
  }

  async inspect(key: string): Promise<LockSnapshot | null> {
    const { outcome } = await this.laneOf(key).run((state) => state.settle().snapshot(key));
    return outcome;
  }

  async forceRelease(key: string): Promise<'released' | 'not held'> {
    const { outcome } = await this.laneOf(key).run((state) => state.forceRelease());
    return outcome ? 'released' : 'not held';
  }

  /** Owners that wait leave the queue, as nobody would hear of their grants. */
  async close(): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    const leaving = [...this.lanes.values()].flatMap((lane) =>
      lane.owners.waiting.map((owner) => lane.run((state) => state.release({ owner }))),
    );
    await Promise.race([Promise.allSettled(leaving), this.delays.wait(this.commandTimeoutMs)]);
    this.releases.close();
    this.delays.endAll();
    await this.register.close();
    this.notifications$.complete();
  }

  private async releaseOnce(request: ReleaseRequest): Promise<ExecutedRelease> {
    const { key, keepUntil = 0, flush } = request;
    const { clock } = this.context;
    const lane = this.laneOf(key);
    const { outcome, executedAt } = await lane.run(
      (state) => state.release(request, keepUntil - clock.now()),
      {
        mayWait: flush === undefined,
        onExecuted: () => this.onReleased(lane, request),
      },
    );
    return { wasHolder: outcome, executedAt };
  }

  private async renewOne(renewal: Renewal): Promise<RenewalReply> {
    const { key, owner, leaseMs, token } = renewal;
    const lane = this.laneOf(key);
    try {
      const { outcome, sentAt, waiting } = await lane.run((state) => state.renew(renewal), {
        onExecuted: (reply) => reply === 'lost' && lane.owners.onLost(owner, token),
      });
      if (outcome === 'lost') return { kind: 'lost' };
      return { kind: 'renewed', validUntil: leaseValidity(sentAt, leaseMs), waiting };
    } catch (error) {
      return { kind: 'unknown', error: error as LockStoreError };
    }
  }

  private taken(request: AcquireRequest, seen: Seen): Grant {
    const lane = this.laneOf(request.key);
    const [holder] = seen.document.holders;
    const { token, lastToken } = holder as { token: number; lastToken: number };
    const grant = { kind: 'granted', token, lastToken, waiting: 0, confirmed: true } as const;
    this.onGranted(lane, request, grant);
    lane.onSeen(seen);
    return { ...grant, validUntil: leaseValidity(seen.sentAt, request.leaseMs) };
  }

  private onGranted(
    lane: Lane,
    { owner, leaseMs }: AcquireRequest,
    grant: Pick<Grant, 'token' | 'lastToken'>,
  ): void {
    lane.owners.onGranted(owner, leaseMs, grant.token);
    this.stepper.minToken = Math.max(this.stepper.minToken, grant.lastToken);
  }

  /** Tokens that come back may be given out again, so they count as unseen. */
  private onReleased(lane: Lane, { owner, used }: ReleaseRequest): void {
    lane.owners.onGone(owner);
    if (used?.lastToken === this.stepper.minToken) this.stepper.minToken = used.token;
  }

  private undo(request: AcquireRequest): void {
    inBackground(this.release(request), () => undefined);
  }

  private laneOf(key: string): Lane {
    const name = this.nameOf(key);
    let lane = this.lanes.get(name);
    if (!lane) {
      const owners = new LaneOwners(this.serverClock, this.register.initialLeaseMs);
      this.lanes.set(name, (lane = new Lane(name, key, owners, this.laneContext)));
    }
    return lane;
  }

  private nameOf(key: string): string {
    return this.context.keyPrefix + key;
  }

  /** Later, as from a server: a notification must not run inside the call of another client. */
  private notify(notification: Notification): void {
    queueMicrotask(() => this.notifications$.next(notification));
  }
}
