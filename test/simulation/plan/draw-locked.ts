import type { Dice } from '../kernel/dice.js';
import type { LockedPlan } from './plan.js';

/** How the method of a `handler` or a `method` is written. */
export function drawLocked(dice: Dice, how: 'handler' | 'method'): LockedPlan {
  const gives = dice.pick(['promise', 'promise', 'observable', 'generator', 'throws'] as const);
  const onBusy = how === 'method' ? dice.pick(['skip', 'answer'] as const) : 'answer';
  // `onBusy` gives no stream.
  const mayBeBusy = gives === 'promise' || gives === 'throws';
  return {
    keys: dice.pick(['function', 'templates', 'list']),
    gives,
    ...(!mayBeBusy && { reader: dice.pick(['reads', 'reads', 'leaves', 'drops'] as const) }),
    ...(mayBeBusy && dice.happens(0.3) && { onBusy }),
    ...(dice.happens(0.05) && { isFree: true as const }),
  };
}
