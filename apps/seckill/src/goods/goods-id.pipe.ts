import { BadRequestException, Injectable, type PipeTransform } from '@nestjs/common';

/** What an integer column of Postgres can hold. */
const LARGEST = 2 ** 31 - 1;

/** `'042'` and `'42'` are one item, and so one lock: the key is made of what this returns. */
@Injectable()
export class GoodsIdPipe implements PipeTransform<unknown, number> {
  transform(value: unknown): number {
    const id = typeof value === 'string' && /^\d{1,10}$/.test(value) ? Number(value) : 0;
    if (id < 1 || id > LARGEST) {
      throw new BadRequestException(`An item's id is a whole number from 1 to ${LARGEST}.`);
    }
    return id;
  }
}
