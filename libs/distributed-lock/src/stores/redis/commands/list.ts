import type { ListRequest } from '../../../port/lock-store.js';
import type { RedisClient } from '../redis.client.js';
import { lockNameIn } from '../redis.keys.js';

/** One page looks through this many steps of SCAN at most, so that it ends soon in a server full of other keys. */
const MOST_STEPS = 10;
/** How many keys the server looks at in one step. */
const STEP_KEYS = 1000;

/** Names of locks that the server has a queue or a counter of tokens for, and where the next page begins. */
interface NamesFound {
  readonly names: readonly string[];
  readonly cursor: string | undefined;
}

/**
 * Finds locks by the keys that stand beside each lock, because a lock itself looks like a hash of the application. Goes from
 * master to master on a cluster.
 *
 * @param prefix what the names begin with, prefix of the store included
 */
export async function findNames(
  client: RedisClient,
  prefix: string,
  { limit, cursor }: ListRequest,
): Promise<NamesFound> {
  const nodes = [...client.masters()].sort((a, b) => (a.address < b.address ? -1 : 1));
  const match = `nest_lock_*${prefix.replace(/[*?[\]\\]/g, '\\$&')}*`;
  const names = new Set<string>();
  let [place, at = '0'] = (cursor ?? '0').split(':').reverse() as [string, string?];
  let node = Number(at);
  for (let step = 0; step < MOST_STEPS && names.size < limit && nodes[node]; step++) {
    const scan = await nodes[node]!.call('scan', [place, 'MATCH', match, 'COUNT', STEP_KEYS]);
    const [next, keys] = scan as [string, string[]];
    for (const key of keys) {
      const name = lockNameIn(key);
      if (name?.startsWith(prefix)) names.add(name);
    }
    if (next === '0') node += 1;
    place = next;
  }
  return { names: [...names], cursor: nodes[node] ? `${node}:${place}` : undefined };
}
