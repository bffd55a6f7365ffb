import { BadRequestException, Injectable, type PipeTransform } from '@nestjs/common';
import { wholeNumber } from '../goods/goods.input.js';

export interface CartItem {
  readonly id: number;
}

const MOST = 10;

/**
 * Up to ten different items: `[{ "id": 1 }, { "id": 2 }]`.
 *
 * The keys of the lock are made of this pipe's result, so an endless cart is refused before a key is locked.
 */
@Injectable()
export class CartPipe implements PipeTransform<unknown, readonly CartItem[]> {
  transform(value: unknown): readonly CartItem[] {
    if (!Array.isArray(value) || value.length === 0 || value.length > MOST) {
      throw new BadRequestException(`items must be a list of 1 to ${MOST} items, such as [{ "id": 1 }].`);
    }
    const ids = value.map((item: unknown) => wholeNumber('id', (item as CartItem | null)?.id, 1));
    if (new Set(ids).size < ids.length) throw new BadRequestException('items must name each item once.');
    return ids.map((id) => ({ id }));
  }
}
