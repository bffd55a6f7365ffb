import { catchError, EMPTY } from 'rxjs';
import { Delays } from '../../common/clock.js';
import { detached, inBackground, type NeverRejects, promiseOf } from '../../common/promises.js';
import type {
  AcquireReply,
  AcquireRequest,
  LockStore,
  ReleaseReply,
  ReleaseRequest,
} from '../../port/lock-store.js';
import { isLockError, LockConfigurationError, LockError, LockStoreError } from '../../port/lock.errors.js';
import { canStore, type StoreCapability, storeThatCan, type StoreThatCan } from '../../port/timing.js';
import type { LockRuntime } from './lock-runtime.js';

const METHODS = ['acquire', 'renew', 'release', 'inspect', 'close'] as const;

/**
 * Wraps a store for the core. Its commands run outside of every async context, because the store may repeat them later and may open
 * connections. Whatever it throws becomes a `LockError`. Replies are passed on unchecked, because the contract suite checks a store
 * before it is used.
 *
 * @param onError called when `notifications$` fails, which ends the notifications
 * @throws LockConfigurationError for a store that lacks a method
 */
export function guardedStore(
  store: LockStore,
  onError: (during: string, error: unknown) => void,
): GuardedStore {
  checkMethods(store);
  const { name, clientId, commandTimeoutMs } = store;

  const send = <T>(key: string, command: () => Promise<T>, to: Replies<T>): void => {
    const settle = () =>
      promiseOf(command).then(
        (reply) => to.onReply(reply),
        (error: unknown) => to.onFailure(asLockError(name, error, key)),
      );
    inBackground(detached(settle) as NeverRejects<void>);
  };
  const ask = <T>(key: string | undefined, command: () => Promise<T>): Promise<T> => {
    const fail = (error: unknown): never => {
      throw asLockError(name, error, key);
    };
    return detached(() => promiseOf(command).catch(fail));
  };

  return {
    name,
    get address() {
      return store.address;
    },
    attempted: store.attempted,
    clientId,
    commandTimeoutMs,
    notifications$: store.notifications$.pipe(
      catchError((error: unknown) => {
        onError('notification', error);
        return EMPTY;
      }),
    ),
    acquire: (request, to) => send(request.key, () => store.acquire(request), to),
    renew: (renewals) => ask(undefined, () => store.renew(renewals)),
    release: (request, to) => send(request.key, () => store.release(request), to),
    inspect: (key) => ask(key, () => store.inspect(key)),
    can: (capability) => canStore(store, capability),
    forceRelease: (key, force) => ask(key, () => storeThatCan(store, 'force').forceRelease(key, force)),
    announceTakeover: (takeover) =>
      ask(takeover.key, () => storeThatCan(store, 'takeover').announceTakeover(takeover)),
    publishHolderEntry: (entry) =>
      ask(undefined, () => storeThatCan(store, 'names').publishHolderEntry(entry)),
    readHolderEntries: (clientIds) =>
      ask(undefined, () => storeThatCan(store, 'names').readHolderEntries(clientIds)),
    list: (request) => ask(undefined, () => storeThatCan(store, 'list').list(request)),
    close: () => ask(undefined, () => store.close()),
  };
}

/**
 * The store as the core uses it. `acquire` and `release` take an object with a method for the reply and one for the failure, instead of
 * returning a promise: every lock needs both requests, and a promise for each takes time (docs/decisions/0012). The methods of a
 * capability that the store lacks reject.
 */
export interface GuardedStore extends Omit<StoreThatCan<StoreCapability>, 'acquire' | 'release'> {
  can(capability: StoreCapability): boolean;
  acquire(request: AcquireRequest, to: Replies<AcquireReply>): void;
  release(request: ReleaseRequest, to: Replies<ReleaseReply>): void;
}

/** Receives the reply to a request: the store calls exactly one of these methods, once. */
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
  const isOwn = isLockError(error) && error.code === 'LOCK_STORE';
  const text = isOwn ? message : `The store ${store} failed: ${message}`;
  return new LockStoreError(text, key, isOwn ? reason : 'unknown', { cause: error });
}

/** A release that has been started. */
export interface Release {
  /**
   * The promise is created when somebody first reads this property: most releases run in the background, and a promise for each would take
   * time.
   */
  readonly reply: NeverRejects<ReleaseReply>;
}

/** The result of a release that needs no request, because the lock was handed off locally or is still shared by another call. */
export const RELEASED: Release = { reply: Promise.resolve('released') as NeverRejects<'released'> };

/** Counts the releases of one service that are in flight or delayed, so that the service can wait for them when it closes. */
export class ReleaseTracker {
  private underWay = 0;
  private onAllDone: (() => void) | undefined;
  private readonly delays: Delays;

  constructor(readonly runtime: LockRuntime) {
    this.delays = new Delays(runtime.clock);
  }

  get areAllDone(): boolean {
    return this.underWay === 0;
  }

  /**
   * Sends a release, after `delayMs` if it is given; closing the service ends the delay. If the store fails, the caller gets `unknown`
   * and the service emits an `error` event.
   */
  send(request: ReleaseRequest, delayMs = 0): Release {
    this.underWay += 1;
    const release = new PendingRelease(this, request.key);
    if (delayMs <= 0) this.runtime.store.release(request, release);
    else inBackground(this.sendLater(request, release, delayMs));
    return release;
  }

  /** Sends delayed releases at once, and waits until every release has its reply or has failed. */
  async finish(): Promise<void> {
    this.delays.endAll();
    if (this.underWay > 0) await new Promise<void>((resolve) => (this.onAllDone = resolve));
  }

  onDone(): void {
    this.underWay -= 1;
    if (this.underWay === 0) this.onAllDone?.();
  }

  private sendLater(request: ReleaseRequest, release: PendingRelease, ms: number): NeverRejects<void> {
    const sent = detached(() =>
      this.delays.wait(ms).then(() => this.runtime.store.release(request, release)),
    );
    return sent as NeverRejects<void>;
  }
}

class PendingRelease implements Release, Replies<ReleaseReply> {
  private outcome: ReleaseReply | undefined;
  private promise: NeverRejects<ReleaseReply> | undefined;
  private resolve: ((reply: ReleaseReply) => void) | undefined;

  constructor(
    private readonly tracker: ReleaseTracker,
    private readonly key: string,
  ) {}

  /**
   * The promise is created outside of any async context. Otherwise it would keep the context of its first reader in memory for as long as
   * the hold exists.
   */
  get reply(): NeverRejects<ReleaseReply> {
    return (this.promise ??= detached(() => this.makePromise()));
  }

  onReply(reply: ReleaseReply): void {
    this.outcome = reply;
    this.tracker.onDone();
    this.resolve?.(reply);
  }

  onFailure(error: LockError): void {
    this.tracker.runtime.emit({ type: 'error', key: this.key, during: 'release', error });
    this.onReply('unknown');
  }

  private makePromise(): NeverRejects<ReleaseReply> {
    const { outcome } = this;
    return new Promise((resolve) => {
      if (outcome === undefined) this.resolve = resolve;
      else resolve(outcome);
    }) as NeverRejects<ReleaseReply>;
  }
}
