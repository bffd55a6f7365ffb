import type { Database } from '../database/database.js';

/** The sale as the database has it, which is the only proof. */
export interface Proof {
  readonly orders: number;
  readonly stockLeft: number;
  /** The number of orders beyond the items on sale. */
  readonly oversold: number;
  /** Items that neither the stock nor an order accounts for; negative when they were sold twice. */
  readonly lost: number;
}

const COUNT = `
  SELECT stock, (SELECT count(*)::integer FROM orders WHERE goods_id = goods.id) AS orders
  FROM goods WHERE id = $1`;

export async function readProof(database: Database, goodsId: number, initialStock: number): Promise<Proof> {
  const [row] = await database.query<{ stock: number; orders: number }>(COUNT, [goodsId]);
  const { stock: stockLeft, orders } = row!;
  return {
    orders,
    stockLeft,
    oversold: Math.max(0, orders - initialStock),
    lost: initialStock - stockLeft - orders,
  };
}
