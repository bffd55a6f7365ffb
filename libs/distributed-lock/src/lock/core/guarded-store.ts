import { catchError, EMPTY, type Observable } from 'rxjs';
import { type Clock, Delays } from '../../common/clock.js';
import { withoutContext, inBackground, promiseOf } from '../../common/promises.js';
import type {
  AcquireReply,
  AcquireRequest,
  AttachRequest,
  LockStore,
  Notification,
  ReleaseReply,
  ReleaseRequest,
} from '../../port/lock-store.js';
import { isLockError, LockConfigurationError, LockError, LockStoreError } from '../../port/lock.errors.js';
import type { Lock } from '../lock.js';
import { canStore, type StoreCapability, storeThatCan, type StoreThatCan } from '../../port/capabilities.js';

const METHODS = ['acquire', 'renew', 'release', 'inspect', 'close'] as const;

type Full = StoreThatCan<StoreCapability>;
type OnError = (during: string, error: unknown, key?: string) => void;

/**
 * Wraps a store for the core. Calls the store outside of every async context: the timers and connections that it opens serve other
 * callers, too, and must not have this caller's locks. Turns whatever the store throws into a `LockError`. Passes replies on unchecked,
 * because the contract suite checks a store before it is used. Rejects calls for a capability that the store lacks.
 *
 * `acquire` does not return a promise: every lock needs it, and each promise takes time (docs/decisions/0012). Nor does `attach`, which
 * takes the place of an acquire.
 */
export class GuardedStore implements Omit<Full, 'acquire' | 'attach' | 'release'> {
  readonly name: string;
  readonly attempted: LockStore['attempted'];
  readonly clientId: string;
  readonly commandTimeoutMs: number;
  readonly notifications$: Observable<Notification>;
  /** How many releases are in flight or delayed. */
  private releasing = 0;
  /** How many requests are in flight that are neither acquires nor releases. */
  private asking = 0;
  private onAllReleased: (() => void) | undefined;
  private readonly delays: Delays;

  /**
   * @param onError called when a release has failed, and when `notifications$` fails, which ends the notifications
   * @throws LockConfigurationError for a store that lacks a method
   */
  constructor(
    private readonly store: LockStore,
    clock: Clock,
    private readonly onError: OnError,
  ) {
    checkMethods(store);
    this.name = store.name;
    this.attempted = store.attempted;
    this.clientId = store.clientId;
    this.commandTimeoutMs = store.commandTimeoutMs;
    this.delays = new Delays(clock);
    this.notifications$ = store.notifications$.pipe(
      catchError((error: unknown) => {
        onError('notification', error);
        return EMPTY;
      }),
    );
  }

  get address(): string | undefined {
    return this.store.address;
  }

  can(capability: StoreCapability): boolean {
    return canStore(this.store, capability);
  }

  /** @throws LockStoreError if the store lacks the capability */
  assertCan(capability: StoreCapability): void {
    storeThatCan(this.store, capability);
  }

  acquire(request: AcquireRequest, to: Replies<AcquireReply>): void {
    this.send(request.key, () => this.store.acquire(request), to);
  }

  attach(request: AttachRequest, to: Replies<AcquireReply>): void {
    this.send(request.key, () => storeThatCan(this.store, 'attach').attach(request), to);
  }

  renew: Full['renew'] = (renewals) => this.ask(undefined, () => this.store.renew(renewals));

  /**
   * Sends a release, after `delayMs` if it is given; `finishReleases` ends the delay. If the store fails, the outcome is `unknown` and
   * `onError` is called.
   */
  release(request: ReleaseRequest, delayMs = 0): Release {
    this.releasing += 1;
    const send = () => this.store.release(request);
    const onReply = (reply: ReleaseReply) => this.onReleased(reply === 'not held' ? 'lost' : reply);
    const onFailed = (error: unknown) => {
      this.onError('release', asLockError(this.name, error, request.key), request.key);
      return this.onReleased('unknown');
    };
    // Outside of any async context: otherwise the promise would keep that of the caller in memory, as long as the lock is reachable.
    return withoutContext(() => {
      const reply = delayMs > 0 ? this.delays.wait(delayMs).then(send) : promiseOf(send);
      return { outcome: reply.then(onReply, onFailed) };
    });
  }

  private onReleased(outcome: ReleaseOutcome): ReleaseOutcome {
    this.releasing -= 1;
    if (this.releasing === 0) this.onAllReleased?.();
    return outcome;
  }

  inspect: Full['inspect'] = (key) => this.ask(key, () => this.store.inspect(key));

  forceRelease: Full['forceRelease'] = (key, force) =>
    this.ask(key, () => storeThatCan(this.store, 'force').forceRelease(key, force));

  announceTakeover: Full['announceTakeover'] = (takeover) =>
    this.ask(takeover.key, () => storeThatCan(this.store, 'takeover').announceTakeover(takeover));

  publishHolderEntry: Full['publishHolderEntry'] = (entry) =>
    this.ask(undefined, () => storeThatCan(this.store, 'names').publishHolderEntry(entry));

  readHolderEntries: Full['readHolderEntries'] = (clientIds) =>
    this.ask(undefined, () => storeThatCan(this.store, 'names').readHolderEntries(clientIds));

  list: Full['list'] = (request) => this.ask(undefined, () => storeThatCan(this.store, 'list').list(request));

  close: Full['close'] = () => this.ask(undefined, () => this.store.close());

  /** Whether nothing is in flight or delayed, except acquires. */
  get isAtRest(): boolean {
    return this.releasing === 0 && this.asking === 0;
  }

  /** Sends delayed releases at once, and waits until every release has its reply or has failed. */
  async finishReleases(): Promise<void> {
    this.delays.endAll();
    if (this.releasing > 0) await new Promise<void>((resolve) => (this.onAllReleased = resolve));
  }

  private send<T>(key: string, command: () => Promise<T>, to: Replies<T>): void {
    const onFailed = (error: unknown): void => to.onFailure(asLockError(this.name, error, key));
    withoutContext(() => inBackground(promiseOf(command), onFailed, (reply) => to.onReply(reply)));
  }

  private ask<T>(key: string | undefined, command: () => Promise<T>): Promise<T> {
    this.asking += 1;
    const end = (reply: T): T => {
      this.asking -= 1;
      return reply;
    };
    const fail = (error: unknown): never => {
      this.asking -= 1;
      throw asLockError(this.name, error, key);
    };
    return withoutContext(() => promiseOf(command).then(end, fail));
  }
}

/** Receives the outcome of a request: exactly one of these methods is called, one time. */
export interface Replies<T> {
  onReply(reply: T): void;
  onFailure(error: LockError): void;
}

function checkMethods(store: LockStore): void {
  const created = store as Partial<LockStore> | null | undefined;
  const missing = METHODS.filter((method) => typeof created?.[method] !== 'function');
  if (missing.length === 0) return;
  const which =
    created?.name === undefined ? 'What the store function has created' : `The store ${created.name}`;
  throw new LockConfigurationError(
    `${which} cannot be used: it lacks ${missing.join(', ')}. Take a release of that store for this version of nestjs-distributed-lock, or try your own with the contract suite of nestjs-distributed-lock/testing.`,
  );
}

/**
 * Turns whatever a store threw into a `LockError`. If it is not an error of this package, nobody knows whether the store has executed the
 * command, so the reason is `unknown`.
 */
function asLockError(store: string, error: unknown, key: string | undefined): LockError {
  if (error instanceof LockError) return error;
  const { message = String(error), reason = 'unknown' } = (error ?? {}) as Partial<LockStoreError>;
  const isOwn = isLockError(error, 'LOCK_STORE');
  const text = isOwn ? message : `The store ${store} failed: ${message}`;
  return new LockStoreError(text, key, isOwn ? reason : 'unknown', { cause: error });
}

/** What became of a release, as `Lock.release` tells it. */
export type ReleaseOutcome = Awaited<ReturnType<Lock['release']>>;

/** A release that has been started. */
export interface Release {
  /** Never rejects. */
  readonly outcome: Promise<ReleaseOutcome>;
}

/** A release that needs no request: a local hand-off, or another call still shares the lock. */
export const RELEASED: Release = { outcome: Promise.resolve('released') };
