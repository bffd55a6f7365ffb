import { Body, Controller, NotFoundException, Param, Post, UseGuards } from '@nestjs/common';
import { Once } from 'nestjs-distributed-lock/once';
import { Database, type Row } from '../database.js';
import { Buyer, BuyerGuard } from './buyer.guard.js';
import { OrderId, PayMs } from './whole-number.pipe.js';

export interface Payment extends Row {
  readonly id: number;
  readonly orderId: number;
}

const DAY_MS = 24 * 3_600_000;
const PAY = `
  INSERT INTO payments (order_id) SELECT id FROM orders WHERE id = $1 AND user_id = $2
  RETURNING id, order_id AS "orderId"`;

@Controller()
@UseGuards(BuyerGuard)
export class PaymentController {
  constructor(private readonly database: Database) {}

  /**
   * Pays one time for each `Idempotency-Key` of a buyer, however often the request is sent and whichever instances it arrives at. The
   * others get the first answer, with the header `Idempotent-Replayed`.
   */
  @Post('orders/:id/payment')
  @Once('payment:<user.id>:<headers.idempotency-key>', {
    keepForMs: DAY_MS,
    fingerprint: ({ params }: { readonly params: unknown }) => params,
  })
  async pay(
    @Param('id', OrderId) id: number,
    @Buyer() buyer: string,
    @Body('payMs', PayMs) payMs: number,
  ): Promise<Payment> {
    await new Promise((resolve) => setTimeout(resolve, payMs)); // A real shop would call a payment service.
    const [payment] = await this.database.query<Payment>(PAY, [id, buyer]);
    if (!payment) throw new NotFoundException(`You have no order ${id}.`);
    return payment;
  }
}
