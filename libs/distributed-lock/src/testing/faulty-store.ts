import { Subject } from 'rxjs';
import type { Clock } from '../common/clock.js';
import type {
  AcquireReply,
  AcquireRequest,
  AttachRequest,
  Force,
  ForceReply,
  LockSnapshot,
  LockStore,
  LockStoreContext,
  LockStoreFactory,
  Notification,
  ReleaseReply,
  ReleaseRequest,
  Renewal,
  RenewalReply,
  TakeoverNotice,
} from '../port/lock-store.js';
import { LockStoreError } from '../port/lock.errors.js';
import { SILENT_WAITER_MS } from '../port/timing.js';
import { storeThatCan } from '../port/capabilities.js';

/** A command that has no reply after this long is rejected as `unknown`. */
const COMMAND_TIMEOUT_MS = 100;
const RETRY_MS = 50;

/**
 * Puts a bad network in front of a store, to test what happens to locks when replies and notifications are late, lost or duplicated.
 *
 * It keeps the promises of the port as a remote store does: it does not execute an acquire request after its deadline (not-after), it
 * does not settle a release before the deadlines of the owner's acquire requests, and validity counts from the call.
 */
export class FaultyStore implements LockStoreFactory {
  constructor(
    private readonly inner: LockStoreFactory,
    private readonly faults: Faults,
  ) {}

  create(context: LockStoreContext): LockStore {
    return new FaultyClient(this.inner.create(context), context.clock, this.faults);
  }
}

/** A command that the store is about to send. */
export type StoreCommand =
  | { readonly kind: 'acquire'; readonly request: AcquireRequest }
  | { readonly kind: 'renew'; readonly renewal: Renewal }
  | { readonly kind: 'release'; readonly request: ReleaseRequest };

/** The fate of one command in the network. */
export interface Fate {
  /**
   * When the back end executes the command, in ms from now, one entry for each execution: `[]` is never, `[0, 30]` is twice. Default
   * `[0]`.
   */
  readonly executedAfterMs?: readonly number[];
  /** How long the reply to the first execution takes to arrive, in ms; default 0. */
  readonly repliedAfterMs?: number | 'never';
}

/** Chooses the fate of each command and each notification; `undefined` lets it pass at once. A test may change these at any time. */
export interface Faults {
  command?: (command: StoreCommand) => Fate | undefined;
  /** When the notification is delivered, in ms from now, one entry for each delivery: `[]` loses it. */
  notification?: (notification: Notification) => readonly number[] | undefined;
}

class FaultyClient implements LockStore {
  readonly name: string;
  readonly clientId: string;
  readonly commandTimeoutMs = COMMAND_TIMEOUT_MS;
  readonly notifications$ = new Subject<Notification>();
  /** By owner: until when an acquire request that has no reply may still be executed. */
  private readonly lateNotAfter = new Map<string, number>();
  /** By owner: the number of the last execution of an acquire request. One counter numbers the executions of all owners of this client. */
  private readonly acquires = new Map<string, number>();
  private executions = 0;
  private readonly cancels = new Set<() => void>();
  /** Called when the store closes. Each function ends a call in flight, or the pause before a release is sent again. */
  private readonly onClosed = new Set<() => void>();
  private isClosed = false;

  constructor(
    private readonly inner: LockStore,
    private readonly clock: Clock,
    private readonly faults: Faults,
  ) {
    this.name = inner.name;
    this.clientId = inner.clientId;
    inner.notifications$.subscribe((notification) => this.deliver(notification));
  }

  acquire(request: AcquireRequest): Promise<AcquireReply> {
    return this.ask(request, () => this.inner.acquire(request));
  }

  attach(request: AttachRequest): Promise<AcquireReply> {
    return this.ask(request, () => storeThatCan(this.inner, 'attach').attach(request));
  }

  /**
   * Sends a request that acquires or attaches, which is not executed after its deadline. Remembers the deadline until a reply comes, because a release
   * must not settle while the request may still be executed.
   */
  private async ask(request: AcquireRequest, execute: () => Promise<AcquireReply>): Promise<AcquireReply> {
    const sentAt = this.clock.now();
    const notAfter = sentAt + this.commandTimeoutMs;
    const { key, owner } = request;
    this.lateNotAfter.set(owner, notAfter);
    const reply = await this.send({ kind: 'acquire', request }, async () => {
      if (this.clock.now() > notAfter) throw withoutReply(key);
      this.acquires.set(owner, ++this.executions);
      const late = this.clock.now() - sentAt;
      const answer = await execute();
      return answer.kind === 'granted' ? { ...answer, validUntil: answer.validUntil - late } : answer;
    });
    this.lateNotAfter.delete(owner);
    return reply;
  }

  renew(renewals: readonly Renewal[]): Promise<readonly RenewalReply[]> {
    return Promise.all(renewals.map((renewal) => this.renewOne(renewal)));
  }

  async release(request: ReleaseRequest): Promise<ReleaseReply> {
    const giveUpAt = this.clock.now() + Math.max(request.leaseMs, SILENT_WAITER_MS) + this.commandTimeoutMs;
    let wasHolder = false;
    let isUnsure = false;
    for (;;) {
      let executedAt = -Infinity;
      let execution = 0;
      try {
        const reply = await this.send({ kind: 'release', request }, async () => {
          executedAt = this.clock.now();
          execution = ++this.executions;
          return this.inner.release(request);
        });
        wasHolder ||= reply === 'released';
        const isLast = execution > (this.acquires.get(request.owner) ?? 0);
        if (isLast && executedAt > (this.lateNotAfter.get(request.owner) ?? -Infinity)) {
          this.lateNotAfter.delete(request.owner);
          this.acquires.delete(request.owner);
          if (wasHolder) return 'released';
          return isUnsure ? 'unknown' : 'not held';
        }
      } catch (error) {
        if (this.isClosed || this.clock.now() > giveUpAt) throw error;
        isUnsure = true;
      }
      await this.pause(RETRY_MS);
    }
  }

  inspect(key: string): Promise<LockSnapshot | null> {
    return this.inner.inspect(key);
  }

  forceRelease(key: string, force?: Force): Promise<ForceReply> {
    return storeThatCan(this.inner, 'force').forceRelease(key, force);
  }

  announceTakeover(takeover: TakeoverNotice): Promise<'announced' | 'nobody to tell'> {
    return storeThatCan(this.inner, 'takeover').announceTakeover(takeover);
  }

  async close(): Promise<void> {
    this.isClosed = true;
    for (const cancel of this.cancels) cancel();
    this.cancels.clear();
    for (const goOn of this.onClosed) goOn();
    await this.inner.close();
    this.notifications$.complete();
  }

  private async renewOne(renewal: Renewal): Promise<RenewalReply> {
    const sentAt = this.clock.now();
    try {
      return await this.send({ kind: 'renew', renewal }, async () => {
        const late = this.clock.now() - sentAt;
        if (late > this.commandTimeoutMs) throw new LockStoreError('too late', renewal.key, 'unknown');
        const [reply = { kind: 'lost' }] = await this.inner.renew([renewal]);
        return reply.kind === 'renewed' ? { ...reply, validUntil: reply.validUntil - late } : reply;
      });
    } catch (error) {
      return { kind: 'unknown', error: error as LockStoreError };
    }
  }

  private send<T>(command: StoreCommand, execute: () => Promise<T>): Promise<T> {
    const { executedAfterMs = [0], repliedAfterMs = 0 } = this.faults.command?.(command) ?? {};
    return new Promise<T>((resolve, reject) => {
      // After a reply no copy of the command may be executed: a connection delivers what it carries in order.
      let hasReply = false;
      const fail = (): void => {
        this.onClosed.delete(fail);
        reject(withoutReply(keyOf(command)));
      };
      this.onClosed.add(fail);
      const cancelTimeout = this.after(this.commandTimeoutMs, fail);
      const reply = (settle: () => void): void => {
        if (repliedAfterMs === 'never') return;
        this.after(repliedAfterMs, () => {
          hasReply = true;
          this.onClosed.delete(fail);
          cancelTimeout();
          settle();
        });
      };
      for (const [i, ms] of executedAfterMs.entries()) {
        this.after(ms, () => {
          if (hasReply) return;
          execute().then(
            (value) => i === 0 && reply(() => resolve(value)),
            (error: unknown) => i === 0 && reply(() => reject(error as Error)),
          );
        });
      }
      if (this.isClosed) fail();
    });
  }

  /** Waits `ms`, or until the store closes. */
  private pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const goOn = (): void => {
        this.onClosed.delete(goOn);
        resolve();
      };
      this.onClosed.add(goOn);
      this.after(ms, goOn);
    });
  }

  /** Delivers a notification as a remote store does: a grant must be confirmed by a renewal, and a late one has no validity. */
  private deliver(notification: Notification): void {
    for (const ms of this.faults.notification?.(notification) ?? [0]) {
      const late = ms > 0 ? { validUntil: -Infinity } : {};
      const delivered =
        notification.kind === 'granted' ? { ...notification, ...late, confirmed: false } : notification;
      this.after(ms, () => this.notifications$.next(delivered));
    }
  }

  /** Runs `task` after `ms`. If there is nothing to wait for, runs it now, so that a command without faults takes no extra turn. */
  private after(ms: number, task: () => void): () => void {
    if (ms <= 0) {
      task();
      return () => undefined;
    }
    const cancel = this.clock.after(ms, () => {
      this.cancels.delete(cancel);
      task();
    });
    this.cancels.add(cancel);
    return () => {
      this.cancels.delete(cancel);
      cancel();
    };
  }
}

function keyOf(command: StoreCommand): string {
  return command.kind === 'renew' ? command.renewal.key : command.request.key;
}

function withoutReply(key: string): LockStoreError {
  return new LockStoreError('The network lost it: nothing came back', key, 'unknown');
}
