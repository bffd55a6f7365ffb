import { Body, Controller, Post } from '@nestjs/common';
import { Once } from 'nestjs-distributed-lock/once';

export abstract class Shop {
  abstract order(sku: string): Promise<{ readonly id: string }>;
}

@Controller('orders')
export class ShopController {
  constructor(private readonly shop: Shop) {}

  @Post()
  @Once('order:<headers.idempotency-key>', { keepForMs: 86_400_000, fingerprint: 'body' })
  place(@Body('sku') sku: string): Promise<{ readonly id: string }> {
    return this.shop.order(sku);
  }
}
