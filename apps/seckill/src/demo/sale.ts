import type { Database } from '../database.js';
import { sendCrowd } from '../live/buyers.js';
import type { Stage } from './stage.js';

/** A sale as the database has it. */
export interface Proof {
  readonly orders: number;
  readonly stockLeft: number;
  /** Orders beyond the pieces on sale. */
  readonly oversold: number;
  /** Pieces that neither the stock nor an order accounts for; negative when they were sold twice. */
  readonly lost: number;
}

const PROOF = `
  SELECT orders, stock AS "stockLeft", greatest(orders - offered, 0) AS oversold, offered - stock - orders AS lost
  FROM goods, (SELECT count(*)::integer AS orders FROM orders WHERE goods_id = $1) AS sold WHERE id = $1`;

export async function readProof(database: Database, goodsId: number): Promise<Proof> {
  const [proof] = await database.query<Proof & Record<string, unknown>>(PROOF, [goodsId]);
  return proof!;
}

export interface Sale {
  readonly stock: number;
  readonly buyers: number;
}

/** Every buyer wants one piece, and the lock lets one of them at a time read the stock and write it back. */
export async function sellWithLock(
  { shop, database, addItem }: Stage,
  { stock, buyers }: Sale,
): Promise<string> {
  const id = await addItem(stock);
  const urls = shop.instances.map(({ url }) => url);
  const outcomes = await sendCrowd({ buyers, urls, pathOf: () => `/goods/${id}/purchase` });
  const proof = await readProof(database, id);
  const expected = Math.min(stock, buyers);
  const found = `${proof.orders} orders, ${proof.oversold} oversold, ${outcomes.refused} buyers refused, ${outcomes.failed} failed`;
  const isRight =
    proof.orders === expected && proof.lost === 0 && outcomes.failed === 0 && outcomes.sold === expected;
  if (!isRight)
    throw new Error(`Expected ${expected} orders; the database has ${JSON.stringify(proof)}: ${found}.`);
  return `${found}. The database has one order for each piece that left the stock.`;
}

/** The same code without the lock. */
export async function sellWithoutLock(
  { shop, database, addItem }: Stage,
  { stock, buyers }: Sale,
): Promise<string> {
  const id = await addItem(stock);
  const urls = shop.instances.map(({ url }) => url);
  await sendCrowd({ buyers, urls, pathOf: () => `/goods/${id}/purchase-without-lock` });
  const { orders, stockLeft, oversold, lost } = await readProof(database, id);
  if (lost >= 0)
    return 'Nothing was oversold this time: too few buyers met. Without the lock that is luck; try more --buyers.';
  const harm = oversold > 0 ? `${oversold} oversold` : `${-lost} sold twice`;
  return `${harm}. ${orders} orders took the stock from ${stock} to ${stockLeft} only, because buyers who read the
stock at the same time all wrote back the same number.`;
}
