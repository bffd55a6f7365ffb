import { BadRequestException, Injectable, type PipeTransform } from '@nestjs/common';

export interface CartItem {
  readonly id: number;
}

const MAX_ITEMS = 10;

/**
 * Up to ten different items: `[{ "id": 1 }, { "id": 2 }]`.
 *
 * `@Locked` makes the keys from the result of this pipe, so an endless cart is refused before anything is locked.
 */
@Injectable()
export class CartPipe implements PipeTransform<unknown, readonly CartItem[]> {
  transform(value: unknown): readonly CartItem[] {
    const ids = Array.isArray(value) ? value.map((item: unknown) => (item as CartItem | null)?.id) : [];
    const areDifferent = new Set(ids).size === ids.length;
    if (ids.length > 0 && ids.length <= MAX_ITEMS && areDifferent && ids.every(isId))
      return ids.map((id) => ({ id }));
    throw new BadRequestException(
      `items must be a list of 1 to ${MAX_ITEMS} different items, such as [{ "id": 1 }].`,
    );
  }
}

function isId(id: unknown): id is number {
  return Number.isInteger(id) && (id as number) >= 1 && (id as number) < 2 ** 31;
}
