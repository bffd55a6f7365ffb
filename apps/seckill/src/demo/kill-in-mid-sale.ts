import type { DemoOptions } from './options.js';
import type { Progress } from './progress.js';
import type { Shop } from './shop.js';
import { WATCHDOG_MS } from './watchdog.js';

/** The clocks of the store and of this process tick in whole ms, and not quite alike. */
const TOLERANCE_MS = 20;

export interface MidSaleKill {
  onSold(sold: number): void;
  /** Call this after the sale. @returns the mistakes that it found */
  over(): Promise<readonly string[]>;
}

/** Kills the holder of the lock when a third is sold, and tells how long the queue stood still. */
export function killInMidSale(
  { stock, buyers }: DemoOptions,
  shop: Shop,
  goodsId: number,
  progress: Progress,
): MidSaleKill {
  const atSold = Math.ceil(Math.min(stock, buyers) / 3);
  const sale = new AbortController();
  let hunt: Promise<readonly string[]> | undefined;
  return {
    onSold(sold) {
      if (sold < atSold || hunt) return;
      hunt = killAndTell(shop, goodsId, progress, sale.signal).catch((error: Error) => [error.message]);
    },
    async over() {
      sale.abort();
      return (await hunt) ?? [];
    },
  };
}

async function killAndTell(
  shop: Shop,
  goodsId: number,
  progress: Progress,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const kill = await shop.killHolder(goodsId, signal);
  if (kill === undefined) {
    progress.say('Nobody was killed: the sale was over before a holder was caught. Try a larger --stock.');
    return [];
  }
  const { instance, pid, leaseLeftMs, leastLeftMs, waiting } = kill;
  const isExact = leastLeftMs === leaseLeftMs;
  progress.say(`kill -9 instance ${instance} (process ${pid}), which holds the lock: its ${isExact ? 'lease' : 'session'} of ${WATCHDOG_MS} ms has
  ${isExact ? '' : 'at most '}${leaseLeftMs} ms left, and ${waiting} other instances wait in the queue`);
  const next = await kill.next;
  const afterMs = Math.round(next.afterMs);
  const holder = next.instance === undefined ? 'another program' : `instance ${next.instance}`;
  if (afterMs < leastLeftMs - TOLERANCE_MS) {
    return [
      `${holder} held the lock ${afterMs} ms later, ${leastLeftMs - afterMs} ms before the lease was over`,
    ];
  }
  const after = isExact
    ? `${Math.max(0, afterMs - leaseLeftMs)} ms after the lease was over`
    : 'when the session was over';
  progress.say(`${holder} holds the lock ${afterMs} ms later, ${after}:
  until then, nobody could tell a dead holder from a slow one`);
  return [];
}
