import type { Dice } from '../../kernel/dice.js';
import type { RedisServer } from '../../redis/server/redis-server.js';

/** Somebody runs `SCRIPT FLUSH`. */
export const SCRIPTS_FLUSHED = 'flush of scripts';
/**
 * A replica has become the master, and its address leads to it. Connections that are open lead to the one before, which follows it now
 * and refuses writes.
 */
export const MASTER_MOVED = 'move of the master';
/** The memory is full, and the server deletes a key that expires. */
export const KEY_EVICTED = 'eviction of a key';

/** Not an event of its own: a connection that leads to the master before is answered `READONLY`. */
export const REPLICA_REPLIED = 'a reply of a replica';

export const REDIS_EVENTS = [SCRIPTS_FLUSHED, MASTER_MOVED, KEY_EVICTED];

/** Keys beside a lock: its queue, the options of its waiters, its tokens, and the name of a process. Without its own key it is lost. */
const BESIDE_A_LOCK = /^nest_lock_(queue|meta|token|shared_token|holders|client):/;

/** @param event one of `REDIS_EVENTS` */
export function happenTo(redis: RedisServer, event: string, dice: Dice): void {
  switch (event) {
    case SCRIPTS_FLUSHED:
      return redis.scripting.flush();
    case MASTER_MOVED:
      return redis.moveMaster();
    case KEY_EVICTED:
      return evict(redis, dice);
  }
}

function evict(redis: RedisServer, dice: Dice): void {
  const { data } = redis;
  const keys = data
    .keys()
    .filter((key) => BESIDE_A_LOCK.test(key) && data.find(key)?.expiresAt !== undefined)
    .toSorted();
  if (keys.length === 0) return;
  data.delete(dice.pick(keys));
  redis.commit();
}
