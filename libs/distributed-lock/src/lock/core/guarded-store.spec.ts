import { AsyncLocalStorage } from 'node:async_hooks';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { Subject } from 'rxjs';
import { systemClock } from '../../common/clock.js';
import { LOCK } from '../../port/lock-store.js';
import { LockConfigurationError, LockStoreError } from '../../port/lock.errors.js';
import { CAPABILITIES, type StoreCapability } from '../../port/capabilities.js';
import type { AcquireReply, LockStore, Notification } from '../../port/lock-store.js';
import { GuardedStore, type ReleaseOutcome } from './guarded-store.js';

type Given = Readonly<Record<string, unknown>>;

const ON_A = { key: 'a', owner: 'c:1', claim: LOCK, leaseMs: 9 };
const ACQUIRE = { ...ON_A, mayWait: false, ticket: 0, tokens: 1 };

const acquire = (store: GuardedStore): Promise<AcquireReply> =>
  new Promise((onReply, onFailure) => store.acquire(ACQUIRE, { onReply, onFailure }));
const release = (store: GuardedStore): Promise<ReleaseOutcome> => store.release(ON_A).outcome;

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
      'publishHolderEntry',
      'readHolderEntries',
      'close',
    ];
    const methods = Object.fromEntries(names.map((name) => [name, method(name)]));
    const given = { name: 'acme', clientId: 'c', commandTimeoutMs: 9, notifications$, ...methods, ...more };
    return new GuardedStore(given as unknown as LockStore, systemClock, (_, error) => told.push(error));
  };
  const failure = async (work: unknown): Promise<LockStoreError> => {
    const outcome = await Promise.resolve(work).catch((error: unknown) => error);
    expect(outcome).toBeInstanceOf(LockStoreError);
    return outcome as LockStoreError;
  };

  beforeEach(() => {
    [answers, told, notifications$] = [{}, [], new Subject<Notification>()];
  });

  it.each(['acquire', 'renew', 'release', 'inspect', 'close'])(
    'is refused when it is opened without %s, which is named',
    (method) => {
      const open = () => store({ [method]: undefined });
      expect(open).toThrow(LockConfigurationError);
      expect(open).toThrow(`The store acme cannot be used: it lacks ${method}.`);
    },
  );

  it.each([undefined, null, Promise.resolve()])('is refused if it is none: %s', (none) => {
    expect(() => new GuardedStore(none as unknown as LockStore, systemClock, () => undefined)).toThrow(
      LockConfigurationError,
    );
  });

  it('is taken at its word, whatever it answers', async () => {
    answers['acquire'] = answers['inspect'] = 'yes';
    await expect(acquire(store())).resolves.toBe('yes');
    await expect(store().inspect('a')).resolves.toBe('yes');
  });

  it('runs its commands outside of the async context of the caller', async () => {
    const request = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    const look = async () => void seen.push(request.getStore());
    await request.run('a request', async () => {
      await acquire(store({ acquire: look }));
      await release(store({ release: look }));
      await store({ inspect: look }).inspect('a');
    });
    expect(seen).toEqual([undefined, undefined, undefined]);
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

  it.each<[StoreCapability, (store: GuardedStore) => unknown, string]>([
    ['force', (it) => it.forceRelease('a'), 'cannot release a lock by force'],
    [
      'takeover',
      (it) => it.announceTakeover({ key: 'a', owner: 'c:1', graceMs: 9, by: 'x' }),
      'cannot take a lock over',
    ],
    ['names', (it) => it.readHolderEntries(['c']), 'cannot tell who its clients are'],
    ['list', (it) => it.list({ prefix: '', limit: 9 }), 'cannot list its keys'],
  ])('may lack what is needed for %s, and then refuses that alone', async (capability, ask, text) => {
    const [method = ''] = CAPABILITIES[capability].methods;
    const lacking = store({ [method]: undefined });
    expect([lacking.can(capability), store().can(capability)]).toEqual([false, true]);
    const { message, reason } = await failure(ask(lacking));
    expect(message).toContain(`The store acme ${text}`);
    expect(reason).toBe('refused');
    await expect(lacking.inspect('a')).resolves.toBeUndefined();
  });

  it('is told of if its notifications fail', () => {
    const arrived: unknown[] = [];
    store().notifications$.subscribe((notification) => arrived.push(notification));
    const lost = { kind: 'lost', owner: 'c:1' } as const;
    const broken = new Error('broken');
    notifications$.next(lost);
    notifications$.error(broken);
    expect(arrived).toEqual([lost]);
    expect(told).toEqual([broken]);
  });
});
