import type { LockStore, LockStoreFactory } from '../../libs/distributed-lock/src/port/lock-store.js';

type AcquireAll = NonNullable<LockStore['acquireAll']>;

/** A store in memory that acquires several keys in one step, as Redis does by a script. */
export function takesTogether(store: LockStoreFactory): LockStoreFactory {
  let underWay: Promise<unknown> | undefined;
  return {
    create(context) {
      const client = store.create(context);
      const acquire = client.acquire.bind(client);
      /** No other request is executed between the reading and the writes. */
      const acquireAll: AcquireAll = async (requests) => {
        while (underWay) await underWay;
        const all = acquireFree(client, acquire, requests);
        underWay = all.finally(() => (underWay = undefined));
        return all;
      };
      return Object.assign(client, {
        acquire: (request) => underWay?.then(() => acquire(request)) ?? acquire(request),
        acquireAll,
      } satisfies Partial<LockStore>);
    },
  };
}

async function acquireFree(
  store: LockStore,
  acquire: LockStore['acquire'],
  requests: Parameters<AcquireAll>[0],
): ReturnType<AcquireAll> {
  const snapshots = await Promise.all(requests.map(({ key }) => store.inspect(key)));
  const taken = snapshots.find((snapshot) => snapshot !== null);
  if (taken) return { key: taken.key };
  const replies = await Promise.all(requests.map((request) => acquire(request)));
  return replies.filter((reply) => reply.kind === 'granted');
}
