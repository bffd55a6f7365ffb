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
 * The same store. Its commands run outside of every async context, because it may repeat them and open connections. Whatever
 * it throws becomes a `LockError`. It passes replies on unchecked, because the contract suite checks a store before it is used.
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
 * The store as the core asks it. `acquire` and `release` call one of two methods, once: every lock needs both, and a promise
 * for each takes time (docs/decisions/0012). The methods of a capability that the store lacks reject.
 */
export interface GuardedStore extends Omit<StoreThatCan<StoreCapability>, 'acquire' | 'release'> {
  can(capability: StoreCapability): boolean;
  acquire(request: AcquireRequest, to: Replies<AcquireReply>): void;
  release(request: ReleaseRequest, to: Replies<ReleaseReply>): void;
}

/** Who gets the reply to a request. */
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

/** An error that is none of this package says nothing about what the store has done. */
function asLockError(store: string, error: unknown, key: string | undefined): LockError {
  if (error instanceof LockError) return error;
  const { message = String(error), reason = 'unknown' } = (error ?? {}) as Partial<LockStoreError>;
  const isOwn = isLockError(error) && error.code === 'LOCK_STORE';
  const text = isOwn ? message : `The store ${store} failed: ${message}`;
  return new LockStoreError(text, key, isOwn ? reason : 'unknown', { cause: error });
}

/** A release that has begun. */
export interface Release {
  /** Made for those who await it: most releases run in the background, and a promise for each takes time. */
  readonly reply: NeverRejects<ReleaseReply>;
}

/** A release that needs no request: by a local hand-off, or by a nested call. */
export const RELEASED: Release = { reply: Promise.resolve('released') as NeverRejects<'released'> };

/** The releases of one service that are in flight or delayed. */
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

  /** Sends a release, after a delay that shutdown ends. A failure becomes an `error` event and `unknown`. */
  send(request: ReleaseRequest, delayMs = 0): Release {
    this.underWay += 1;
    const release = new PendingRelease(this, request.key);
    if (delayMs <= 0) this.runtime.store.release(request, release);
    else inBackground(this.sendLater(request, release, delayMs));
    return release;
  }

  /** Sends delayed releases at once, and waits until each release is certain or has failed. */
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

  /** Made outside of any async context, which the promise would keep as long as the hold is there. */
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
