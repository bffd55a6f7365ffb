import { beforeEach, describe, expect, it } from '@jest/globals';
import { Subject } from 'rxjs';
import { LOCK } from '../../port/claim.js';
import { LockConfigurationError, LockStoreError } from '../../port/lock.errors.js';
import type { AcquireReply, LockStore, Notification, ReleaseReply } from '../../port/lock-store.js';
import { guardedStore, type GuardedStore } from './guarded-store.js';

type Given = Readonly<Record<string, unknown>>;

const GRANT = { kind: 'granted', token: 1, lastToken: 1, validUntil: 9, waiting: 0, confirmed: true };
const BUSY = { kind: 'busy', remainingMs: 7 };
const SNAPSHOT = {
  key: 'a',
  mode: 'exclusive',
  holders: ['c:1'],
  remainingMs: 7,
  pending: [],
  fencingToken: 1,
};
const ON_A = { key: 'a', owner: 'c:1', claim: LOCK, leaseMs: 9 };
const ACQUIRE = { ...ON_A, waitMs: 0, ticket: 0, tokens: 1 };
const RENEWAL = { ...ON_A, token: 1, lastToken: 1 };

const acquire = (store: GuardedStore): Promise<AcquireReply> =>
  new Promise((resolve, reject) => store.acquire(ACQUIRE, resolve, reject));
const release = (store: GuardedStore): Promise<ReleaseReply> =>
  new Promise((resolve, reject) => store.release(ON_A, resolve, reject));

const raise = (): never => {
  throw new TypeError('revoked');
};

/** Every answer with all its members, and how it is asked for. */
const ANSWERS: readonly (readonly [
  method: keyof LockStore,
  answer: Given,
  ask: (store: GuardedStore) => unknown,
])[] = [
  ['acquire', GRANT, acquire],
  ['acquire', BUSY, acquire],
  ['acquire', { ...BUSY, kind: 'queued', ticket: 1, recheckAfterMs: 1 }, acquire],
  ['inspect', SNAPSHOT, (store) => store.inspect('a')],
  ['list', { entries: [SNAPSHOT] }, (store) => store.list?.({ prefix: '', limit: 9 })],
];
const OPTIONAL: readonly string[] = ['mode', 'fencingToken'];

describe('a store of another package', () => {
  let answers: Record<string, unknown>;
  let told: unknown[];
  let notifications$: Subject<Notification>;

  const store = (more: Given = {}): GuardedStore => {
    const method = (name: string) => async () => answers[name];
    const names = [
      'acquire',
      'renew',
      'release',
      'inspect',
      'forceRelease',
      'announceTakeover',
      'list',
      'introduce',
      'readIntroductions',
      'close',
    ];
    const methods = Object.fromEntries(names.map((name) => [name, method(name)]));
    const given = { name: 'acme', clientId: 'c', commandTimeoutMs: 9, notifications$, ...methods, ...more };
    return guardedStore(given as unknown as LockStore, (_, error) => told.push(error));
  };
  const failure = async (work: unknown): Promise<LockStoreError> => {
    const outcome = await Promise.resolve(work).catch((error: unknown) => error);
    expect(outcome).toBeInstanceOf(LockStoreError);
    return outcome as LockStoreError;
  };

  beforeEach(() => {
    [answers, told, notifications$] = [{}, [], new Subject<Notification>()];
  });

  const members = [
    'name',
    'clientId',
    'commandTimeoutMs',
    'notifications$',
    'acquire',
    'renew',
    'release',
    'inspect',
    'forceRelease',
    'announceTakeover',
    'close',
  ];
  it.each(
    members.flatMap(
      (name) =>
        [
          [name, undefined],
          [name, {}],
        ] as const,
    ),
  )('is refused when it is opened without a right %s, which is named: %j', (name, value) => {
    const open = () => store({ [name]: value });
    expect(open).toThrow(LockConfigurationError);
    expect(open).toThrow(new RegExp(`${name === 'name' ? '' : 'acme .*'}its ${name.replace('$', '\\$')} is`));
  });

  it.each([undefined, null, Promise.resolve()])('is refused if it is none: %s', (none) => {
    expect(() => guardedStore(none as unknown as LockStore, () => undefined)).toThrow(LockConfigurationError);
  });

  const spoiled = ANSWERS.flatMap(([method, answer, ask]) =>
    Object.keys(answer).flatMap((member) =>
      [undefined, { of: 'another type' }].map((value) => ({
        method,
        member,
        value,
        answer: { ...answer, [member]: value },
        ask,
      })),
    ),
  ).filter(({ member, value }) => value !== undefined || !OPTIONAL.includes(member));

  it.each(spoiled)(
    'gets an error with its name and that of the member for a wrong answer to $method: $member is $value',
    async ({ method, member, answer, ask }) => {
      answers[method] = answer;
      const { message, reason } = await failure(ask(store()));
      expect(message).toContain(`The store acme answered ${method} wrongly: its ${member} is`);
      expect(reason).toBe('unknown');
    },
  );

  it.each(ANSWERS)('is taken at its word if its answer to %s is right', async (method, answer, ask) => {
    answers[method] = answer;
    await expect(ask(store())).resolves.toMatchObject(answer);
  });

  it.each<[keyof LockStore, (store: GuardedStore) => unknown]>([
    ['acquire', acquire],
    ['release', release],
    ['forceRelease', (it) => it.forceRelease('a')],
    ['list', (it) => it.list?.({ prefix: '', limit: 9 })],
    ['readIntroductions', (it) => it.readIntroductions?.(['c'])],
  ])('gets an error with its name for no answer, and for one of another type, to %s', async (method, ask) => {
    for (const none of [undefined, null, true, 'yes', 7]) {
      answers[method] = none;
      expect((await failure(ask(store()))).message).toContain(
        `The store acme answered ${method} wrongly: it is`,
      );
    }
  });

  it.each(ANSWERS)(
    'gets an error with its name for an answer to %s that throws when it is read',
    async (method, _, ask) => {
      answers[method] = new Proxy({}, { get: (_target, name) => (name === 'then' ? undefined : raise()) });
      const { message, reason } = await failure(ask(store()));
      expect(message).toContain(`The store acme answered ${method} wrongly: it cannot be read: revoked`);
      expect(reason).toBe('unknown');
    },
  );

  it('has nothing for a key if it says undefined', async () => {
    await expect(store().inspect('a')).resolves.toBeNull();
  });

  it('need not tell keys that it cannot read', async () => {
    answers['list'] = { entries: [SNAPSHOT] };
    await expect(store().list?.({ prefix: '', limit: 9 })).resolves.toEqual({
      entries: [SNAPSHOT],
      unreadable: [],
    });
  });

  it('is not believed where it answers a renewal wrongly: each of the others counts', async () => {
    const renewed = { kind: 'renewed', validUntil: 9, waiting: 0 };
    answers['renew'] = [renewed, { kind: 'renewed' }, { kind: 'ok' }, undefined];
    const [first, ...others] = await store().renew([RENEWAL, RENEWAL, RENEWAL, RENEWAL]);
    expect(first).toEqual(renewed);
    expect(others.map((reply) => reply.kind === 'unknown' && reply.error.message)).toEqual([
      expect.stringContaining('its validUntil is undefined'),
      expect.stringContaining('its kind is "ok"'),
      expect.stringContaining('it is undefined'),
    ]);
    answers['renew'] = [renewed];
    expect((await failure(store().renew([RENEWAL, RENEWAL]))).message).toContain('it has 1 of 2 entries');
  });

  it('may throw in place of rejecting, and may reject with any error: what it did is unknown', async () => {
    const thrower = () => {
      throw new TypeError('x is not a function');
    };
    for (const given of [thrower, async () => thrower()]) {
      const { message, reason, key } = await failure(acquire(store({ acquire: given })));
      expect([message, reason, key]).toEqual(['The store acme failed: x is not a function', 'unknown', 'a']);
    }
  });

  it('may reject with an error of another copy of this package, of which the reason counts', async () => {
    const error = Object.assign(new Error('no'), { code: 'LOCK_STORE', key: 'a', reason: 'refused' });
    const { message, reason } = await failure(acquire(store({ acquire: () => Promise.reject(error) })));
    expect([message, reason]).toEqual(['no', 'refused']);
  });

  it('is told of if it notifies wrongly, and later notifications arrive', () => {
    const arrived: unknown[] = [];
    store().notifications$.subscribe((notification) => arrived.push(notification));
    const right = { kind: 'lost', owner: 'c:1' } as const;
    for (const wrong of [undefined, {}, { kind: 'lost' }, { kind: 'granted', owner: 'c:1' }])
      notifications$.next(wrong as unknown as Notification);
    notifications$.next(new Proxy({}, { get: raise }) as Notification);
    notifications$.next(right);
    notifications$.error(new Error('broken'));
    expect(arrived).toEqual([right]);
    expect(told).toHaveLength(6);
    expect(String(told[2])).toContain(
      'The store acme answered by a notification wrongly: its owner is undefined',
    );
  });
});
