import { BadRequestException } from '@nestjs/common';
import { wholeNumber } from '../goods/goods.input.js';
import { LONGEST_PAYMENT_MS } from '../orders/pay-ms.pipe.js';

export interface CrowdOptions {
  readonly buyers: number;
  /** Whether they buy under the lock. */
  readonly locked: boolean;
  readonly payMs: number;
}

const MOST_BUYERS = 2000;

/** @throws BadRequestException */
export function crowdOptions(body: Readonly<Record<string, unknown>> | undefined): CrowdOptions {
  const { buyers, locked = true, payMs = 0 } = body ?? {};
  if (typeof locked !== 'boolean') throw new BadRequestException('locked must be true or false.');
  const limits = { buyers: MOST_BUYERS, payMs: LONGEST_PAYMENT_MS };
  const options = { buyers: wholeNumber('buyers', buyers, 1), payMs: wholeNumber('payMs', payMs, 0), locked };
  for (const name of ['buyers', 'payMs'] as const) {
    if (options[name] > limits[name]) throw new BadRequestException(`${name} is ${limits[name]} at most.`);
  }
  return options;
}
