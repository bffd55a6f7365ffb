import { post } from '../crowd/http-client.js';
import { runSale } from '../crowd/sale.js';
import { wishFor } from '../crowd/wish.js';
import { openManyProcesses, WATCHDOG_MS } from './many-processes.js';
import { openOneProcess } from './one-process.js';
import { readOptions, type DemoOptions } from './options.js';
import { progressOf } from './progress.js';
import { readProof } from './proof.js';
import { objections, table } from './report.js';
import type { Shop } from './shop.js';

async function demo(options: DemoOptions): Promise<boolean> {
  console.log(describe(options));
  const shop = await (options.instances > 1 ? openManyProcesses(options) : openOneProcess(options.locked));
  try {
    const { body } = await post(`${shop.urls[0]}/goods`, { name: 'flash sale item', stock: options.stock });
    const goodsId = Number(body['id']);
    const result = await runSale({
      wishOf: () => wishFor(goodsId),
      buyers: options.buyers,
      urls: () => shop.urls,
      onProgress: withKill(options, shop, progressOf(options.buyers)),
    });
    const proof = await readProof(shop.database, goodsId, options.stock);
    console.log(table(result, proof));
    return verdict(options, objections(options, result, proof), proof.oversold);
  } finally {
    await shop.close();
  }
}

function describe({ stock, buyers, instances, locked }: DemoOptions): string {
  const where =
    instances > 1
      ? `${instances} processes, one Redis, one database`
      : 'one process, embedded Postgres, locks in memory';
  return `Flash sale: ${stock} items, ${buyers} buyers, ${locked ? 'with' : 'WITHOUT'} the lock (${where})`;
}

/** Kills one process when a third of the items is sold. */
function withKill(options: DemoOptions, shop: Shop, show: (answered: number, sold: number) => void) {
  let pending = options.kill;
  return (answered: number, sold: number) => {
    show(answered, sold);
    if (!pending || sold < options.stock / 3) return;
    pending = false;
    console.log(
      `\n  kill -9 one process: if it holds the lock, the sale goes on after ${WATCHDOG_MS} ms at most`,
    );
    shop.killOne().catch(console.error);
  };
}

function verdict({ locked }: DemoOptions, failures: readonly string[], oversold: number): boolean {
  if (failures.length === 0) console.log('Proved by the database: all sold, none oversold, none lost.');
  else if (!locked) console.log(`${oversold} oversold: that is what the lock is for.`);
  else console.error(`FAILED: ${failures.join('; ')}`);
  return failures.length === 0 || !locked;
}

try {
  const succeeded = await demo(readOptions(process.argv.slice(2)));
  process.exitCode = succeeded ? 0 : 1;
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}
