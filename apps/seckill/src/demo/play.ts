import type { Config } from '../config.js';
import { post } from '../crowd/http-client.js';
import { runSale } from '../crowd/sale.js';
import { wishFor } from '../crowd/wish.js';
import { describe } from './describe.js';
import { killInMidSale } from './kill-in-mid-sale.js';
import type { DemoOptions } from './options.js';
import { Progress } from './progress.js';
import { readProof } from './proof.js';
import { objections, table } from './report.js';
import type { Shop } from './shop.js';
import { verdict } from './verdict.js';

/** Long enough that a killed holder was in the middle of a payment. */
const PAY_MS = 20;

/** @returns whether the sale was correct */
export async function play(options: DemoOptions, config: Config): Promise<boolean> {
  console.log(describe(options, config));
  const shop = await openShop(options, config);
  try {
    const { body } = await post(`${shop.urls[0]}/goods`, { name: 'flash sale item', stock: options.stock });
    const goodsId = Number(body['id']);
    const progress = new Progress(options.buyers);
    const hunt = options.kill ? killInMidSale(options, shop, goodsId, progress) : undefined;
    const result = await runSale({
      wishOf: () => wishFor(goodsId, hunt ? PAY_MS : 0),
      buyers: options.buyers,
      urls: () => shop.urls,
      signal: shop.closing,
      onProgress(answered, sold) {
        if (shop.closing.aborted) return;
        progress.show(answered, sold);
        hunt?.onSold(sold);
      },
    });
    if (shop.closing.aborted) return false;
    const blamed = (await hunt?.over()) ?? [];
    const proof = await readProof(shop.database, goodsId, options.stock);
    console.log(table(result, proof));
    return verdict(options, [...objections(options, result, proof), ...blamed], proof);
  } finally {
    if (!shop.closing.aborted) await shop.close();
  }
}

/** A demo of several processes does not load the app. */
async function openShop(options: DemoOptions, config: Config): Promise<Shop> {
  if (options.instances > 1) return (await import('./many-processes.js')).openManyProcesses(options, config);
  return (await import('./one-process.js')).openOneProcess(config);
}
