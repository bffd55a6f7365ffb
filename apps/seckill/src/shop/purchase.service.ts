import { setTimeout as pause } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { lockKey, type Lock } from 'nestjs-distributed-lock';
import { AlreadyBoughtError, SoldOutError } from './errors.js';
import { GoodsRepository, type Goods } from './goods.repository.js';
import { OrdersRepository, type Order } from './orders.repository.js';

@Injectable()
export class PurchaseService {
  constructor(
    private readonly goods: GoodsRepository,
    private readonly orders: OrdersRepository,
  ) {}

  /**
   * Sells one piece of each item, or nothing.
   *
   * @param lock holds the keys `goods:<id>` of all items
   * @param payMs how long the payment takes
   * @throws GoodsNotFoundError, SoldOutError, AlreadyBoughtError, StaleTokenError, LockLostError
   */
  async buy(ids: readonly number[], userId: string, lock: BuyLock, payMs = 0): Promise<readonly Order[]> {
    const cart: Goods[] = [];
    for (const id of ids) cart.push(await this.goods.findUnder(lock.tokenOf(lockKey`goods:${id}`), id));
    await this.checkStock(cart, userId);
    if (payMs > 0) await pause(payMs);
    // If this process was frozen meanwhile, the lease has expired and another buyer has the item. The clock of this
    // process is enough to notice that. For a freeze right after this line there is the fencing token.
    lock.assertHeld();
    return this.orders.place(cart, userId);
  }

  /** The same without any protection: two buyers may read the same stock, and both are sold the last piece. */
  async buyWithoutLock(id: number, userId: string, payMs = 0): Promise<readonly Order[]> {
    const cart = [await this.goods.find(id)];
    await this.checkStock(cart, userId);
    if (payMs > 0) await pause(payMs);
    return this.orders.place(cart, userId);
  }

  private async checkStock(cart: readonly Goods[], userId: string): Promise<void> {
    for (const { id, name, stock } of cart) {
      if (stock > 0) continue;
      // A buyer who asks again because the first response got lost must not be told that the item is sold out.
      const hasBought = await this.orders.has(id, userId);
      throw hasBought ? new AlreadyBoughtError(name) : new SoldOutError(name);
    }
  }
}

export type BuyLock = Pick<Lock, 'tokenOf' | 'assertHeld'>;
