import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { CAPABILITIES } from '../port/capabilities.js';
import type { LockStore, LockStoreFactory } from '../port/lock-store.js';
import { memoryStore } from '../memory/store.js';
import { describeLockStoreContract, type ContractDeviations } from './lock-store.contract.js';
import { ManualClock } from './manual-clock.js';

interface Case {
  readonly name: string;
  readonly isSkipped: boolean;
  readonly run: () => Promise<void>;
}

const framework = globalThis as { describe?: unknown; it?: unknown };
const real = { describe: framework.describe, it: framework.it };
let cases: Case[];

function define(store = memoryStore(), deviations: ContractDeviations = {}): void {
  const clock = new ManualClock();
  describeLockStoreContract(
    'some store',
    () => ({ store, clock, pass: (ms) => clock.advance(ms) }),
    deviations,
  );
}

/** Which of these cases fail. */
async function failuresOf(...names: string[]): Promise<string[]> {
  const failed: string[] = [];
  for (const { name, run } of cases) if (names.includes(name)) await run().catch(() => failed.push(name));
  return failed;
}

/** The memory store with one thing about its clients changed. */
function broken(change: (client: LockStore) => Partial<LockStore>): LockStoreFactory {
  const memory = memoryStore();
  return {
    create: (context) => {
      const client = memory.create(context);
      return Object.assign(Object.create(client) as LockStore, change(client));
    },
  };
}

describe('the contract suite', () => {
  /** Collects the cases instead of having them run. */
  beforeEach(() => {
    cases = [];
    const add = (isSkipped: boolean) => (name: string, run: () => Promise<void>) =>
      void cases.push({ name, isSkipped, run });
    framework.describe = (_name: string, run: () => void) => run();
    framework.it = Object.assign(add(false), { skip: add(true) });
  });
  afterEach(() => {
    Object.assign(framework, real);
  });

  it('shows a deviation as skipped, with its reason, and leaves out nothing else', () => {
    define(memoryStore(), { 'a forced release tells the holder': 'this store notifies nobody' });
    const skipped = cases.filter(({ isSkipped }) => isSkipped).map(({ name }) => name);
    expect(skipped).toEqual(['a forced release tells the holder (deviation: this store notifies nobody)']);
    expect(cases.length).toBeGreaterThan(50);
    expect(new Set(cases.map(({ name }) => name)).size).toBe(cases.length);
  });

  it('shows each case that needs what the store cannot do as skipped, with the reason', () => {
    define(
      broken(() => ({ list: undefined as never })),
      { list: 'its back end cannot search' },
    );
    const skipped = cases.filter(({ isSkipped }) => isSkipped).map(({ name }) => name);
    expect(skipped).toHaveLength(3);
    for (const name of skipped) expect(name).toContain('(deviation: its back end cannot search)');
  });

  it.each(['force', 'takeover', 'attach', 'names', 'list'] as const)(
    'fails for a store that lacks %s and does not say so in the cases that need it, and in no others',
    async (capability) => {
      const methods: readonly string[] = CAPABILITIES[capability].methods;
      const absent = Object.entries(CAPABILITIES).filter((each) =>
        each[1].methods.some((method) => methods.includes(method)),
      );
      define(memoryStore(), Object.fromEntries(absent.map(([name]) => [name, 'absent'])));
      const needing = cases.flatMap(({ name, isSkipped }) =>
        isSkipped ? [name.replace(' (deviation: absent)', '')] : [],
      );
      cases = [];
      define(broken(() => Object.fromEntries(methods.map((method) => [method, undefined]))));
      expect(await failuresOf(...needing)).toEqual(needing);
      const others = cases.map(({ name }) => name).filter((name) => !needing.includes(name));
      const failed = await failuresOf(...others);
      cases = [];
      define();
      expect(failed).toEqual(await failuresOf(...failed));
    },
  );

  it('refuses a deviation that names no case, and names those that there are', () => {
    const unknown = { 'a forced release tels the holder': 'a typing error' } as ContractDeviations;
    expect(() => define(memoryStore(), unknown)).toThrow(
      /No case of the contract is called a forced release tels the holder;.*a forced release tells the holder/,
    );
  });

  it('finds a store whose renewal brings a lost lock back', async () => {
    const renewsAnything = broken((client) => ({
      renew: async (renewals) => {
        for (const { key, owner, claim, leaseMs } of renewals) {
          await client.acquire({ key, owner, claim, leaseMs, mayWait: false, ticket: 0, tokens: 1 });
        }
        return client.renew(renewals);
      },
    }));
    define(renewsAnything);
    const wanted = 'a renewal that arrives after expiry reports lost and does not bring the lock back';
    expect(await failuresOf(wanted)).toEqual([wanted]);
  });

  it('finds a store whose expired holder can release its successor', async () => {
    const releasesAnybody = broken((client) => ({
      release: async (end) => {
        const holder = (await client.inspect(end.key))?.holders[0];
        return client.release({ ...end, owner: holder ?? end.owner });
      },
    }));
    define(releasesAnybody);
    const wanted = 'the successor of an expired holder can release, and the expired holder cannot';
    expect(await failuresOf(wanted)).toEqual([wanted]);
  });

  it('finds a store that forgets its tokens', async () => {
    let count = 0;
    const startsAnew = broken((client) => ({
      acquire: async (ask) => {
        const reply = await client.acquire(ask);
        return reply.kind === 'granted' ? { ...reply, token: count++ % 3, lastToken: count % 3 } : reply;
      },
    }));
    define(startsAnew);
    const wanted = 'tokens grow across the crash of a holder';
    expect(await failuresOf(wanted)).toEqual([wanted]);
  });

  it('finds a store that counts validity from its own reply', async () => {
    const believesLong = broken((client) => ({
      acquire: async (ask) => {
        const reply = await client.acquire(ask);
        return reply.kind === 'granted' ? { ...reply, validUntil: reply.validUntil + ask.leaseMs } : reply;
      },
    }));
    define(believesLong);
    const wanted = [
      'a grant is valid no longer than its lease, counted from the call',
      'nobody else is granted within the validity of the holder',
    ];
    expect((await failuresOf(...wanted)).toSorted()).toEqual(wanted.toSorted());
  });
});
