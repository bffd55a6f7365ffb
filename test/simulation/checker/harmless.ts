import {
  KEY_EVICTED,
  MASTER_MOVED,
  REPLICA_REPLIED,
  SCRIPTS_FLUSHED,
} from '../backends/redis/server-events.js';

/** What happens to a Redis and costs nobody a lock: at most a request, which is repeated at once. */
export const COST_NO_LOCK: readonly string[] = [SCRIPTS_FLUSHED, MASTER_MOVED, KEY_EVICTED];

/** What costs a connection, or the message that is under way on it. */
export const COST_A_CONNECTION: readonly string[] = ['break', 'break after', 'reset', REPLICA_REPLIED];
