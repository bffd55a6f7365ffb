import { afterEach, describe, expect, it } from '@jest/globals';
import { LockConfigurationError } from 'nestjs-distributed-lock';
import { quorumStore } from 'nestjs-distributed-lock/quorum';
import { ManualClock } from 'nestjs-distributed-lock/testing';
import { LOCK } from '../../libs/distributed-lock/src/port/lock-store.js';
import { LockStoreError } from '../../libs/distributed-lock/src/port/lock.errors.js';
import type {
  KeyPage,
  LockStore,
  LockStoreContext,
  LockStoreFactory,
} from '../../libs/distributed-lock/src/port/lock-store.js';
import { memoryStore } from '../../libs/distributed-lock/src/memory/store.js';

const context = { clock: new ManualClock(), keyPrefix: '', watchdogTimeoutMs: 30_000 };
const keys = Array.from({ length: 20 }, (_, i) => `k${String(i).padStart(2, '0')}`);

/** A node in memory that a test makes silent, or unable to read a key, and whose pages begin at the end of the alphabet if it is told so. */
class Node implements LockStoreFactory {
  isSilent = false;
  unreadable: string | undefined;
  private readonly memory = memoryStore();

  constructor(private readonly isReversed = false) {}

  create(of: LockStoreContext): LockStore {
    const inner = this.memory.create(of);
    const heard = <T>(command: () => Promise<T>): Promise<T> =>
      this.isSilent ? Promise.reject(new LockStoreError('silent', undefined, 'unreachable')) : command();
    return Object.assign(Object.create(inner) as LockStore, {
      inspect: (key: string) => heard(() => (key === this.unreadable ? refuse(key) : inner.inspect(key))),
      list: (request: Parameters<NonNullable<LockStore['list']>>[0]) =>
        heard(() =>
          this.isReversed ? reversed(inner, request) : (inner.list?.(request) as Promise<KeyPage>),
        ),
    });
  }
}

function refuse(key: string): Promise<never> {
  return Promise.reject(new LockStoreError('of another format', key, 'refused'));
}

async function reversed(
  inner: LockStore,
  { prefix, limit, cursor = '0' }: Parameters<NonNullable<LockStore['list']>>[0],
): Promise<KeyPage> {
  const page = (await inner.list?.({ prefix, limit: 1000 })) as KeyPage;
  const from = Number(cursor);
  const entries = page.entries.toReversed().slice(from, from + limit);
  const hasNext = from + limit < page.entries.length;
  return { entries, unreadable: [], ...(hasNext && { cursor: String(from + limit) }) };
}

describe('a list of locks in a quorum', () => {
  const stores: LockStore[] = [];
  const open = (factory: LockStoreFactory): LockStore => {
    const store = factory.create(context);
    stores.push(store);
    return store;
  };
  const hold = async (store: LockStore, key: string): Promise<void> => {
    const owner = `${store.clientId}:${key}`;
    const request = { key, owner, claim: LOCK, leaseMs: 10_000, mayWait: false, ticket: 0, tokens: 1 };
    expect(await store.acquire(request)).toMatchObject({ kind: 'granted' });
  };
  const pageOf = (store: LockStore, cursor?: string, limit = 9): Promise<KeyPage> =>
    store.list?.({ prefix: 'k', limit, ...(cursor !== undefined && { cursor }) }) as Promise<KeyPage>;
  const allFrom = async (store: LockStore, page: KeyPage): Promise<readonly string[]> => {
    const found = page.entries.map(({ key }) => key);
    if (page.cursor === undefined) return found;
    return [...found, ...(await allFrom(store, await pageOf(store, page.cursor)))];
  };
  afterEach(() => Promise.all(stores.splice(0).map((store) => store.close())));

  it('has each key on one page where all nodes have one order', async () => {
    const store = open(quorumStore([new Node(), new Node(), new Node()]));
    for (const key of keys) await hold(store, key);
    expect(await allFrom(store, await pageOf(store))).toEqual(keys);
  });

  it('has every key, some of them on several pages, where the orders of the nodes and the numbers of their keys differ', async () => {
    const nodes = [new Node(), new Node(true), new Node()] as const;
    const store = open(quorumStore(nodes));
    for (const key of keys) await hold(store, key);
    const more = keys.map((key) => key.replace('k', 'k-more'));
    const one = open(nodes[2]);
    for (const key of more) await hold(one, key);
    const found = await allFrom(store, await pageOf(store));
    expect([...new Set(found)].sort()).toEqual([...more, ...keys]);
    expect(found.length).toBeLessThanOrEqual(nodes.length * keys.length + more.length);
  });

  it('says of a key what a majority says, and has no more than was asked for on a page', async () => {
    const nodes = [new Node(), new Node(true), new Node()] as const;
    const store = open(quorumStore(nodes));
    for (const key of keys) await hold(store, key);
    await hold(open(nodes[0]), 'k-minority');
    const page = await pageOf(store);
    expect(page.entries.length).toBeLessThanOrEqual(9);
    const minority = page.entries.find(({ key }) => key === 'k-minority');
    expect(minority).toMatchObject({ holders: [], mode: undefined, pending: [expect.any(String)] });
    for (const entry of page.entries) expect(entry).toEqual(await store.inspect(entry.key));
  });

  it('is whole though a minority falls silent in the middle, and comes back', async () => {
    const nodes = [new Node(), new Node(true), new Node()] as const;
    const store = open(quorumStore(nodes));
    for (const key of keys) await hold(store, key);
    const first = await pageOf(store);
    nodes[0].isSilent = true;
    const second = await pageOf(store, first.cursor);
    nodes[0].isSilent = false;
    const rest = await allFrom(store, second);
    expect([...new Set([...first.entries.map(({ key }) => key), ...rest])].sort()).toEqual(keys);
  });

  it('ends with an error that names the nodes when no majority has answered for all of its pages', async () => {
    const nodes = [new Node(), new Node(), new Node()] as const;
    const store = open(quorumStore(nodes));
    for (const key of keys) await hold(store, key);
    const first = await pageOf(store);
    nodes[0].isSilent = true;
    const second = await pageOf(store, first.cursor);
    [nodes[0].isSilent, nodes[1].isSilent] = [false, true];
    const failed = pageOf(store, second.cursor);
    await expect(failed).rejects.toMatchObject({ code: 'LOCK_STORE', reason: 'unreachable' });
    await expect(failed).rejects.toThrow(
      /1 of 3 nodes answered, 2 are needed\. node 1 \(memory\): it did not answer for a page before; node 2 \(memory\): silent/,
    );
  });

  it('tells of a key that no majority can read, which does not hide the others', async () => {
    const nodes = [new Node(), new Node(), new Node()] as const;
    const store = open(quorumStore(nodes));
    for (const key of ['k1', 'k2']) await hold(store, key);
    for (const node of nodes) node.unreadable = 'k1';
    const { entries, unreadable } = await pageOf(store);
    expect(entries).toMatchObject([{ key: 'k2' }]);
    expect(unreadable).toEqual([{ key: 'k1', message: expect.stringContaining('of another format') }]);
  });

  it('refuses the cursor of another quorum', async () => {
    const store = open(quorumStore([new Node(), new Node(), new Node()]));
    for (const cursor of ['', 'k07', '["a","b"]', '[1,2,3]', '{}'])
      await expect(pageOf(store, cursor)).rejects.toThrow(LockConfigurationError);
  });

  it('is not there where a node cannot list its keys', () => {
    const blind: LockStoreFactory = {
      create: (of) => Object.assign(new Node().create(of), { list: undefined }),
    };
    expect(open(quorumStore([new Node(), new Node(), blind])).list === undefined).toBe(true);
  });
});
