import { applyDecorators } from '@nestjs/common';
import type { LockService } from 'nestjs-distributed-lock';

/** Where the other decorators of a method stand: declared above `@Locked`, or below it. */
export const PLACES = ['above', 'below'] as const;
export type Place = (typeof PLACES)[number];

/** `@Locked` with other decorators on one side of it. Those that are applied first are declared lowest. */
export function beside(place: Place, locked: unknown, ...others: MethodDecorator[]): MethodDecorator {
  const it = locked as MethodDecorator;
  return place === 'above' ? applyDecorators(it, ...others) : applyDecorators(...others, it);
}

/** What happens to locks from now on, as `acquired goods:1`. */
export function record(locks: LockService): string[] {
  const events: string[] = [];
  locks.events$.subscribe(({ type, key }) => {
    if (type === 'acquired' || type === 'released') events.push(`${type} ${key}`);
  });
  return events;
}

/** What `record` has seen of one call that locked exactly once. */
export const once = (key: string): readonly string[] => [`acquired ${key}`, `released ${key}`];
