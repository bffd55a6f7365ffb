import { Body, Controller, Post } from '@nestjs/common';
import { CurrentLock, Locked, type Lock } from 'nestjs-distributed-lock';

interface Checkout {
  readonly items: readonly { readonly sku: string }[];
}

@Controller()
export class TransferController {
  @Post('transfers')
  @Locked(['account:<body.from>', 'account:<body.to>'])
  async transfer(@Body('from') from: string, @Body('to') to: string, @CurrentLock() lock: Lock) {
    return lock.keys.map((key) => lock.tokenOf(key));
  }

  @Post('checkout')
  @Locked('goods:<body.items[].sku>', { waitMs: 3000 })
  async checkout(@Body() { items }: Checkout) {
    return items.length;
  }
}
