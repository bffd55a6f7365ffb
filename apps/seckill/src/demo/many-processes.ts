import type { Config } from '../config.js';
import { openBranches } from './branches.js';
import type { DemoOptions } from './options.js';
import type { Shop } from './shop.js';
import { WATCHDOG_MS } from './watchdog.js';

export async function openManyProcesses(
  { instances: count, locked, kill }: DemoOptions,
  config: Config,
): Promise<Shop> {
  const branches = await openBranches({
    count,
    config,
    env: { LOCK: locked ? 'on' : 'off', WATCHDOG_MS: String(WATCHDOG_MS) },
    onStep: console.log,
  });
  const running = [...branches.instances];
  const hunter = kill ? new (await import('./hunter.js')).Hunter(branches) : undefined;
  const close = async () => {
    await hunter?.close();
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
      const killed = await hunter?.killHolder(goodsId, running, signal);
      const victim = running.findIndex(({ pid }) => pid === killed?.pid);
      // Buyers no longer send requests to it.
      if (victim >= 0) running.splice(victim, 1);
      return killed;
    },
    close,
  };
}
