import { LockService, lockKey } from 'nestjs-distributed-lock';
import type { Config } from '../config.js';
import { InstancesRepository } from '../instances/instances.repository.js';
import { lockStoreOf, STORES } from '../stores/stores.js';
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
  config: Config,
): Promise<Shop> {
  const branches = await openBranches({
    count,
    config,
    env: { LOCK: locked ? 'on' : 'off', WATCHDOG_MS: String(WATCHDOG_MS) },
    onStep: console.log,
  });
  const running = [...branches.instances];
  const locks = new LockService({ store: lockStoreOf(branches.config) });
  const close = async () => {
    await locks.close();
    await branches.close();
  };
  const closing = new AbortController();
  const onSignal = (_: NodeJS.Signals, number: number) => {
    if (closing.signal.aborted) process.exit(128 + number);
    closing.abort();
    // An instance that ends in order would first answer the buyers that it has.
    for (const instance of running) instance.signal('SIGKILL');
    void close().finally(() => process.exit(128 + number));
  };
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, onSignal);
  return {
    get urls() {
      return running.map(({ url }) => url);
    },
    database: branches.database,
    closing: closing.signal,
    async killHolder(goodsId, signal) {
      const known = new InstancesRepository(branches.database);
      const key = lockKey`goods:${goodsId}`;
      const hasSessions = STORES[config.store].hasSessions === true;
      const hunt = { key, locks, known, running, hasSessions, patienceMs: PATIENCE_MS };
      const kill = await killHolder(hunt, signal);
      const victim = running.findIndex(({ pid }) => pid === kill?.pid);
      // Buyers no longer send requests to it.
      if (victim >= 0) running.splice(victim, 1);
      return kill;
    },
    close,
  };
}
