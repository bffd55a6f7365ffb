import { applyDecorators } from '@nestjs/common';

/** Where the other decorators of a method stand: declared above `@Locked`, or below it. */
export const PLACES = ['above', 'below'] as const;
export type Place = (typeof PLACES)[number];

/** `@Locked` with other decorators on one side of it. Those that are applied first are declared lowest. */
export function beside(place: Place, locked: unknown, ...others: MethodDecorator[]): MethodDecorator {
  const it = locked as MethodDecorator;
  return place === 'above' ? applyDecorators(it, ...others) : applyDecorators(...others, it);
}

/** The outcomes of one call that locked exactly once. */
export const once = (key: string): readonly string[] => [`acquired ${key}`, `released ${key}`];
