import { Body, Controller, Headers, Post } from '@nestjs/common';
import { Locked } from 'nestjs-distributed-lock';

interface Order {
  readonly id: string;
  readonly sku: string;
}

export abstract class Orders {
  abstract findByRequest(requestId: string): Promise<Order | undefined>;
  abstract create(requestId: string, sku: string): Promise<Order>;
}

@Controller('orders')
export class OrdersController {
  constructor(private readonly orders: Orders) {}

  @Post()
  @Locked('order:<headers.idempotency-key>', { waitMs: 2000 })
  async place(@Headers('idempotency-key') requestId: string, @Body('sku') sku: string): Promise<Order> {
    return (await this.orders.findByRequest(requestId)) ?? this.orders.create(requestId, sku);
  }
}
