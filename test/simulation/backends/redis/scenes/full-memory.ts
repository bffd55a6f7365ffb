import type { CallOptionsPlan } from '../../../plan/plan.js';
import type { Scene, SceneFrame } from '../../../plan/scene.js';
import { callOf, twoOf } from '../../../plan/scenes/aims.js';
import { KEY_EVICTED } from '../server-events.js';

/** The memory of the server is full while one holds for longer than its lease and another waits: keys beside the lock are evicted. */
export function fullMemory(frame: SceneFrame): Scene {
  const { dice, key, servers, watchdogTimeoutMs } = frame;
  const [holder, waiter] = twoOf(frame);
  const kinds: readonly CallOptionsPlan[] = [{}, {}, { mode: 'exclusive' }, { mode: 'shared' }];
  const options = dice.pick(kinds);
  const asks = { ...dice.pick(kinds), waitMs: 'Infinity' as const };
  const waitsAfterMs = dice.int(0, Math.floor(watchdogTimeoutMs / 4));
  return {
    calls: [
      callOf(frame, {
        process: holder,
        options,
        work: [{ do: 'sleep', ms: Math.floor(1.5 * watchdogTimeoutMs) }],
      }),
      // One name, one kind: a plain lock beside a read-write lock is refused as data of the application.
      callOf(frame, {
        process: waiter,
        afterMs: waitsAfterMs,
        options: options.mode === undefined ? { waitMs: 'Infinity' } : { mode: 'exclusive', ...asks },
        work: [{ do: 'sleep', ms: dice.scale(10, watchdogTimeoutMs) }],
      }),
    ],
    faults: Array.from({ length: dice.int(1, 4) }, () => ({
      when: { event: dice.pick(['acquired', 'acquired', 'asked'] as const), nth: 1, of: holder, key },
      afterMs: dice.int(0, watchdogTimeoutMs),
      act: { do: 'server event' as const, server: dice.int(0, servers - 1), event: KEY_EVICTED },
    })),
  };
}
