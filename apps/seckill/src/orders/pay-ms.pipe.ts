import { BadRequestException, Injectable, type PipeTransform } from '@nestjs/common';

/** With a longer payment one buyer would keep all others waiting. */
export const LONGEST_PAYMENT_MS = 100;

/** How long the payment takes; 0 by default. A real shop would ask another service to pay. */
@Injectable()
export class PayMsPipe implements PipeTransform<unknown, number> {
  transform(value: unknown = 0): number {
    if (typeof value === 'number' && value >= 0 && value <= LONGEST_PAYMENT_MS) return value;
    throw new BadRequestException(`payMs must be a number from 0 to ${LONGEST_PAYMENT_MS}.`);
  }
}
