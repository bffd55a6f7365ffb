import { EMPTY, catchError, filter } from 'rxjs';
import { detached } from '../../async-context/detached.js';
import { describeGiven } from '../../options/describe-given.js';
import { isLockError, LockConfigurationError, LockError, LockStoreError } from '../../port/lock.errors.js';
import type { KeyPage, LockStore, Notification, RenewalReply } from '../../port/lock-store.js';
import {
  acquireReply,
  grant,
  isFunction,
  isNumber,
  isText,
  keyPage,
  listOf,
  notification,
  ofShape,
  oneOf,
  renewalReply,
  snapshot,
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
export function guardedStore(store: LockStore, tell: (during: string, error: unknown) => void): LockStore {
  const { name, clientId, commandTimeoutMs } = checked(store);
  const wrong = (method: string, what: string, key: string | undefined): LockStoreError =>
    new LockStoreError(`The store ${name} answered ${method} wrongly: ${what}. ${REMEDY}`, key, 'unknown');

  /** One promise beside that of the store: a lock takes two of these. */
  const ask = <T>(
    method: keyof LockStore,
    key: string | undefined,
    send: () => Promise<T> | undefined,
    check: Check = () => undefined,
  ): Promise<T> => {
    const fail = (error: unknown): never => {
      throw asLockError(name, error, key);
    };
    const answered = (answer: T): T => {
      const what = check(answer);
      if (what !== undefined) throw wrong(method, what, key);
      return answer;
    };
    return detached(() => sent(send).then(answered, fail));
  };
  const isRight = (given: Notification): boolean => {
    const what = notification(given);
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
    acquire: (request) => ask('acquire', request.key, () => store.acquire(request), acquireReply),
    ...(store.acquireAll && {
      acquireAll: async (requests) => {
        const grants = listOf(grant, requests.length);
        const inTheWay = ofShape({ key: isText });
        return ask(
          'acquireAll',
          undefined,
          async () => (await store.acquireAll?.(requests)) ?? null,
          (it) => (it === null ? undefined : Array.isArray(it) ? grants(it) : inTheWay(it)),
        );
      },
    }),
    renew: async (renewals) => {
      const isList = listOf(() => undefined, renewals.length);
      const replies = await ask('renew', undefined, () => store.renew(renewals), isList);
      return replies.map((reply, i): RenewalReply => {
        const what = renewalReply(reply);
        return what === undefined
          ? reply
          : { kind: 'unknown', error: wrong('renew', what, renewals[i]?.key) };
      });
    },
    release: (request) =>
      ask('release', request.key, () => store.release(request), oneOf('released', 'not held', 'unknown')),
    inspect: async (key) =>
      ask(
        'inspect',
        key,
        async () => (await store.inspect(key)) ?? null,
        (it) => (it === null ? undefined : snapshot(it)),
      ),
    forceRelease: (key, owner) =>
      ask('forceRelease', key, () => store.forceRelease(key, owner), oneOf('released', 'not held')),
    announceTakeover: (takeover) =>
      ask('announceTakeover', takeover.key, () => store.announceTakeover(takeover)),
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
        const page = await ask('list', undefined, () => store.list?.(request), keyPage);
        return { ...page, unreadable: (page as Partial<KeyPage>).unreadable ?? [] };
      },
    }),
    close: () => ask('close', undefined, () => store.close()),
  };
}

/** A command that throws at once fails like one whose promise rejects. */
function sent<T>(send: () => Promise<T> | undefined): Promise<T> {
  try {
    return Promise.resolve(send() as Promise<T>);
  } catch (error) {
    return Promise.reject(error as Error);
  }
}

function checked(store: LockStore): LockStore {
  const what = checkStore(store);
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
