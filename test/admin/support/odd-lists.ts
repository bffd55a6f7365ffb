import { memoryStore, type LockStoreFactory, type UnreadableKey } from 'nestjs-distributed-lock';

/** A store that cannot list its keys, as some cannot. */
export function withoutList(): LockStoreFactory {
  const memory = memoryStore();
  return {
    create(context) {
      const store = memory.create(context);
      return Object.assign(store, { list: undefined });
    },
  };
}

/** A store that has, beside its locks, something for these keys which it cannot read. */
export function withUnreadable(...unreadable: readonly UnreadableKey[]): LockStoreFactory {
  const memory = memoryStore();
  return {
    create(context) {
      const store = memory.create(context);
      const list = store.list?.bind(store);
      if (!list) throw new Error('A store in memory lists its keys.');
      return Object.assign(store, {
        list: async (request: Parameters<typeof list>[0]) => ({ ...(await list(request)), unreadable }),
      });
    },
  };
}
