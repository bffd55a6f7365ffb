import { EMPTY, catchError, filter } from 'rxjs';
import { detached } from '../../async-context/detached.js';
import { inBackground, type NeverRejects } from '../../async-context/in-background.js';
import { promiseOf } from '../../async-context/promise-of.js';
import { describeGiven } from '../../options/describe-given.js';
import { isLockError, LockConfigurationError, LockError, LockStoreError } from '../../port/lock.errors.js';
import type {
  AcquireReply,
  AcquireRequest,
  KeyPage,
  LockStore,
  Notification,
  ReleaseReply,
  ReleaseRequest,
  RenewalReply,
} from '../../port/lock-store.js';
import {
  checkAcquireReply,
  isFunction,
  isNumber,
  isText,
  checkKeyPage,
  listOf,
  checkNotification,
  ofShape,
  oneOf,
  problemOf,
  checkReleaseReply,
  checkRenewalReply,
  checkSnapshot,
  type Check,
} from './answer-checks.js';

const REMEDY =
  'Take a release of that store for this version of nestjs-distributed-lock, or try your own with the contract suite of nestjs-distributed-lock/testing.';

const checkStore = ofShape({
  name: isText,
  clientId: isText,
  commandTimeoutMs: isNumber,
  notifications$: (value) => isFunction((value as { readonly subscribe?: unknown } | undefined)?.subscribe),
  ...Object.fromEntries(
    ['acquire', 'renew', 'release', 'inspect', 'forceRelease', 'announceTakeover', 'close'].map((name) => [
      name,
      isFunction,
    ]),
  ),
});

/**
 * The same store. Its commands run outside of every async context, because it may repeat them and open connections. Its
 * answers are checked, because it may be of another package, written in JavaScript or for another release of the port.
 *
 * @param tell is told of a notification that is wrong, which is ignored
 * @throws LockConfigurationError for a store that lacks a member
 */
export function guardedStore(store: LockStore, tell: (during: string, error: unknown) => void): GuardedStore {
  const { name, clientId, commandTimeoutMs } = checked(store);
  const wrong = (method: string, what: string, key: string | undefined): LockStoreError =>
    new LockStoreError(`The store ${name} answered ${method} wrongly: ${what}. ${REMEDY}`, key, 'unknown');

  const send = <T>(
    method: keyof LockStore,
    key: string | undefined,
    command: () => Promise<T> | undefined,
    check: Check,
    onAnswer: (answer: T) => void,
    onFailure: (error: LockError) => void,
  ): void => {
    const onAnswered = (answer: T): void => {
      const what = problemOf(answer, check);
      if (what === undefined) onAnswer(answer);
      else onFailure(wrong(method, what, key));
    };
    const onError = (error: unknown): void => onFailure(asLockError(name, error, key));
    inBackground(
      detached(() => promiseOf(command as () => Promise<T>).then(onAnswered, onError)) as NeverRejects<void>,
    );
  };
  const ask = <T>(
    method: keyof LockStore,
    key: string | undefined,
    command: () => Promise<T> | undefined,
    check: Check = () => undefined,
  ): Promise<T> => new Promise((resolve, reject) => send(method, key, command, check, resolve, reject));
  const isRight = (given: Notification): boolean => {
    const what = problemOf(given, checkNotification);
    if (what !== undefined) tell('notification', wrong('by a notification', what, undefined));
    return what === undefined;
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
      filter(isRight),
      catchError((error: unknown) => {
        tell('notification', error);
        return EMPTY;
      }),
    ),
    acquire: (request, onReply, onFailure) =>
      send('acquire', request.key, () => store.acquire(request), checkAcquireReply, onReply, onFailure),
    renew: async (renewals) => {
      const isList = listOf(() => undefined, renewals.length);
      const replies = await ask('renew', undefined, () => store.renew(renewals), isList);
      return replies.map((reply, i): RenewalReply => {
        const what = problemOf(reply, checkRenewalReply);
        return what === undefined
          ? reply
          : { kind: 'unknown', error: wrong('renew', what, renewals[i]?.key) };
      });
    },
    release: (request, onReply, onFailure) =>
      send('release', request.key, () => store.release(request), checkReleaseReply, onReply, onFailure),
    inspect: async (key) =>
      ask(
        'inspect',
        key,
        async () => (await store.inspect(key)) ?? null,
        (it) => (it === null ? undefined : checkSnapshot(it)),
      ),
    forceRelease: (key, force) =>
      ask(
        'forceRelease',
        key,
        () => store.forceRelease(key, force),
        oneOf('released', 'not held', 'held by another'),
      ),
    announceTakeover: (takeover) =>
      ask(
        'announceTakeover',
        takeover.key,
        () => store.announceTakeover(takeover),
        oneOf('announced', 'nobody to tell'),
      ),
    ...(store.introduce && {
      introduce: (introduction) => ask('introduce', undefined, () => store.introduce?.(introduction)),
    }),
    ...(store.readIntroductions && {
      readIntroductions: (ids) =>
        ask(
          'readIntroductions',
          undefined,
          () => store.readIntroductions?.(ids),
          (it) => (Array.isArray(it) ? undefined : `it is ${describeGiven(it)}`),
        ),
    }),
    ...(store.list && {
      list: async (request) => {
        const page = await ask('list', undefined, () => store.list?.(request), checkKeyPage);
        return { ...page, unreadable: (page as Partial<KeyPage>).unreadable ?? [] };
      },
    }),
    close: () => ask('close', undefined, () => store.close()),
  };
}

/**
 * The store as the core asks it. `acquire` and `release` call one of two functions, once: every lock needs both, and a promise
 * for each takes time (docs/decisions/0012).
 */
export interface GuardedStore extends Omit<LockStore, 'acquire' | 'release'> {
  acquire(
    request: AcquireRequest,
    onReply: (reply: AcquireReply) => void,
    onFailure: (error: LockError) => void,
  ): void;
  release(
    request: ReleaseRequest,
    onReply: (reply: ReleaseReply) => void,
    onFailure: (error: LockError) => void,
  ): void;
}

function checked(store: LockStore): LockStore {
  const what = problemOf(store, checkStore);
  if (what === undefined) return store;
  const { name } = (store ?? {}) as Partial<LockStore>;
  const which = isText(name) ? `The store ${name}` : 'What the store function has created';
  throw new LockConfigurationError(`${which} cannot be used: ${what}. ${REMEDY}`);
}

/** An error that is none of this package says nothing about what the store has done. */
function asLockError(store: string, error: unknown, key: string | undefined): LockError {
  if (error instanceof LockError) return error;
  const { message = String(error), reason = 'unknown' } = (error ?? {}) as Partial<LockStoreError>;
  const isOwn = isLockError(error) && error.code === 'LOCK_STORE';
  const text = isOwn ? message : `The store ${store} failed: ${message}`;
  return new LockStoreError(text, key, isOwn ? reason : 'unknown', { cause: error });
}
