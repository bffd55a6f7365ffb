import type { Dice } from '../kernel/dice.js';
import type { CallOptionsPlan } from './plan.js';

export interface KeyPlan {
  readonly key: string;
  readonly family: 'lock' | 'readers' | 'permits' | 'fair' | 'both kinds';
  readonly permits: number;
}

const FAMILIES = [
  'lock',
  'lock',
  'lock',
  'readers',
  'readers',
  'permits',
  'permits',
  'fair',
  'both kinds',
] as const;

/** Of plans with several keys. */
const MANY = 0.15;

export function drawKeys(dice: Dice, cannot: readonly string[]): readonly KeyPlan[] {
  const isHot = dice.happens(0.5);
  const families = FAMILIES.filter(
    (family) => !cannot.includes(family === 'both kinds' ? 'permits' : family),
  );
  const permits = dice.int(2, 4);
  return Array.from(
    { length: isHot ? 1 : dice.happens(MANY) ? dice.int(5, 12) : dice.int(2, 4) },
    (_, i) => ({
      key: `key${i}`,
      family: dice.pick(families),
      permits,
    }),
  );
}

/** How a call asks for a key of its family. */
export function drawClaim(dice: Dice, { family, permits }: KeyPlan): CallOptionsPlan {
  switch (family) {
    case 'lock':
      return dice.happens(0.1) ? { mode: 'exclusive' } : {};
    case 'readers':
      return { mode: dice.happens(0.6) ? 'shared' : 'exclusive' };
    case 'permits':
      return drawPermits(dice, dice.happens(0.15) ? dice.int(1, permits) : permits);
    case 'fair':
      return dice.happens(0.8) ? { fair: true } : {};
    // It is refused while the key is in use as the other kind.
    case 'both kinds':
      if (dice.happens(0.4)) return drawPermits(dice, permits);
      return dice.happens(0.7) ? {} : { mode: dice.pick(['shared', 'exclusive']) };
  }
}

/** Each call is checked against its own number. */
function drawPermits(dice: Dice, permits: number): CallOptionsPlan {
  return { permits, ...(dice.happens(0.4) && { weight: dice.int(1, permits) }) };
}
