import { BadRequestException, Injectable, type PipeTransform } from '@nestjs/common';

/** The largest value of an integer column of Postgres. */
const LARGEST = 2 ** 31 - 1;

/** `'042'` and `'42'` are one item, and so one lock: the key is made of the pipe's result. */
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
