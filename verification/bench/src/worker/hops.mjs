import { setTimeout as pause } from 'node:timers/promises';
import { systemMs } from '../measure/system-ms.mjs';

/**
 * One caller that takes the lock again and again and records when it held it. Two such processes take turns.
 *
 * @param {import('../../contestants/contestant.d.mts').Contestant} contestant
 * @param {{ key: string, ms: number, holdMs: number }} details `holdMs` gives the other process time to join the queue
 */
export async function hops(contestant, { key, ms, holdMs }) {
  const stays = [];
  let failed = 0;
  const endsAt = performance.now() + ms;
  while (performance.now() < endsAt) {
    const work = async () => {
      const from = systemMs();
      await pause(holdMs);
      stays.push([from, systemMs()]);
    };
    await contestant.run(key, work).catch(() => failed++);
  }
  return { stays, failed };
}
