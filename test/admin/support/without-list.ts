import { memoryStore, type LockStoreFactory } from 'nestjs-distributed-lock';

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
