import { BadRequestException } from '@nestjs/common';

const MOST = 1_000_000;

/** @throws BadRequestException */
export function wholeNumber(name: string, value: unknown, least: number): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < least || value > MOST) {
    throw new BadRequestException(`${name} must be a whole number from ${least} to ${MOST}.`);
  }
  return value;
}

/** @throws BadRequestException */
export function goodsName(value: unknown): string {
  if (typeof value !== 'string' || !/^\P{C}{1,100}$/u.test(value)) {
    throw new BadRequestException('name must be a text of 1 to 100 visible characters.');
  }
  return value;
}
