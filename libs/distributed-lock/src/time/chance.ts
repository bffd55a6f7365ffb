import { randomBytes, randomUUID } from 'node:crypto';

/** The only source of random numbers and ids in the library, so that a simulation can run a history again. */
export interface Chance {
  /** A number of at least 0 and less than 1. */
  random(): number;
  /** A UUID of version 4. */
  uuid(): string;
  /** This many random bytes as hexadecimal digits. */
  hex(bytes: number): string;
}

/** Used by services by default. */
export const systemChance: Chance = {
  random: () => Math.random(),
  uuid: () => randomUUID(),
  hex: (bytes) => randomBytes(bytes).toString('hex'),
};

/** A time between `least` and `least + spread`, in ms. */
export function randomMs(
  chance: Chance,
  { least, spread }: { readonly least: number; readonly spread: number },
): number {
  return least + chance.random() * spread;
}
