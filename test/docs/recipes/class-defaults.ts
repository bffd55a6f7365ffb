import { Body, Controller, Param, Post } from '@nestjs/common';
import { LockDefaults, Locked } from 'nestjs-distributed-lock';

@LockDefaults({ waitMs: 500, http: { busy: 409 } })
@Controller('carts')
export class CartController {
  @Post(':id/lines')
  @Locked('cart:<id>')
  async add(@Param('id') id: string): Promise<string> {
    return `added to ${id}`;
  }

  @Post(':id/order')
  @Locked('cart:<id>', { waitMs: 0, when: (_id: string, isDraft: boolean) => !isDraft })
  async order(@Param('id') id: string, @Body('isDraft') isDraft: boolean): Promise<string> {
    return isDraft ? `what ${id} would cost` : `ordered ${id}`;
  }
}
