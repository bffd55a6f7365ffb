import { LockService, lockKey } from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';
import type { Config } from '../config.js';
import { InstancesRepository } from '../instances/instances.repository.js';
import { openBranches } from './branches.js';
import { killHolder } from './kill-holder.js';
import type { DemoOptions } from './options.js';
import type { Shop } from './shop.js';

/** A killed process blocks the item for so long; the default of 30 s would only make the demo longer. */
export const WATCHDOG_MS = 3000;
/** After this the queue is stuck, and the demo has failed. */
const PATIENCE_MS = 4 * WATCHDOG_MS;

export async function openManyProcesses(
  { instances: count, locked }: DemoOptions,
  { redisUrl, databaseUrl }: Config,
): Promise<Shop> {
  const branches = await openBranches({
    count,
    env: { LOCK: locked ? 'on' : 'off', WATCHDOG_MS: String(WATCHDOG_MS) },
    redisUrl,
    databaseUrl,
    onStep: console.log,
  });
  const running = [...branches.instances];
  const locks = new LockService({ store: redisStore(branches.redisUrl) });
  return {
    get urls() {
      return running.map(({ url }) => url);
    },
    database: branches.database,
    // This process ends at once, and the others end with it.
    closing: new AbortController().signal,
    async killHolder(goodsId, signal) {
      const known = new InstancesRepository(branches.database);
      const key = lockKey`goods:${goodsId}`;
      const kill = await killHolder({ key, locks, known, running, patienceMs: PATIENCE_MS }, signal);
      const victim = running.findIndex(({ pid }) => pid === kill?.pid);
      // Buyers no longer send requests to it.
      if (victim >= 0) running.splice(victim, 1);
      return kill;
    },
    async close() {
      await locks.close();
      await branches.close();
    },
  };
}
