import { Observable } from 'rxjs';
import type { Chance } from '../../../libs/distributed-lock/src/common/clock.js';
import { awakeClock, type Clock, timerDelay } from '../../../libs/distributed-lock/src/common/clock.js';
import type { Dice } from './dice.js';
import type { SimProcess } from './process.js';

/** What a service of this process is given: the library's own clock over the clocks of its machine, and chance from the seed. */
export function sourcesOf(
  process: SimProcess,
  dice: Dice,
): { readonly clock: Clock; readonly chance: Chance } {
  const after: Clock['after'] = (ms, task) => process.setTimeout(timerDelay(ms), task);
  const clock: Clock = {
    ...awakeClock({
      monotonic: () => process.monotonic,
      timeOfDay: () => process.timeOfDay,
      uptime: () => process.uptime,
    }),
    after,
    interval: (ms) =>
      new Observable((out) => {
        let count = 0;
        const tick = (): void => {
          cancel = after(ms, tick);
          out.next(count++);
        };
        let cancel = after(ms, tick);
        return () => cancel();
      }),
    nextTurn: (task) => void process.setImmediate(task),
  };
  return { clock, chance: dice };
}
