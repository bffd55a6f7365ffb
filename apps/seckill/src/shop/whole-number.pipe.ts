import { BadRequestException, Injectable, type ArgumentMetadata, type PipeTransform } from '@nestjs/common';

export interface WholeNumberOptions {
  readonly min: number;
  readonly max: number;
  readonly byDefault?: number;
}

/**
 * A whole number of a URL or of a body.
 *
 * `@Locked` makes the key from the result of the pipe, so `/goods/042` and `/goods/42` are one item and one lock.
 */
@Injectable()
export class WholeNumberPipe implements PipeTransform<unknown, number> {
  constructor(private readonly options: WholeNumberOptions) {}

  transform(value: unknown, { data }: ArgumentMetadata): number {
    const { min, max, byDefault } = this.options;
    const isText = typeof value === 'string' && /^\d+$/.test(value);
    const number = isText ? Number(value) : (value ?? byDefault);
    if (typeof number === 'number' && Number.isInteger(number) && number >= min && number <= max)
      return number;
    throw new BadRequestException(`${data} must be a whole number from ${min} to ${max}.`);
  }
}

/** Up to the largest integer of Postgres. */
export const GoodsId = new WholeNumberPipe({ min: 1, max: 2 ** 31 - 1 });

export const OrderId = GoodsId;

/** How long the payment takes, in ms. A real shop would call a payment service. */
export const PayMs = new WholeNumberPipe({ min: 0, max: 10_000, byDefault: 0 });
