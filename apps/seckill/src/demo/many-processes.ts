import { openBranches } from './branches.js';
import type { DemoOptions } from './options.js';
import type { Shop } from './shop.js';

/** A killed process blocks the item for so long; the default of 30 s would only make the demo longer. */
export const WATCHDOG_MS = 3000;

export async function openManyProcesses({ instances: count, locked }: DemoOptions): Promise<Shop> {
  const branches = await openBranches({
    count,
    env: { LOCK: locked ? 'on' : 'off', WATCHDOG_MS: String(WATCHDOG_MS) },
    redisUrl: process.env['REDIS_URL'],
    databaseUrl: process.env['DATABASE_URL'],
  });
  const running = [...branches.instances];
  return {
    get urls() {
      return running.map(({ url }) => url);
    },
    database: branches.database,
    async killOne() {
      const instance = running.pop();
      instance?.signal('SIGKILL');
      await instance?.exited;
    },
    close: () => branches.close(),
  };
}
