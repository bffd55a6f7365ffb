import type { Scene, SceneFrame } from '../scene.js';
import { callOf, messageSince, twoOf } from './aims.js';

/** A lock is taken by force while the reply that grants it is under way, and another process waits for it. */
export function forcedAtGrant(frame: SceneFrame): Scene {
  const { dice, key, latencyMs, messages, storeOptions, watchdogTimeoutMs } = frame;
  const [holder, waiter] = twoOf(frame);
  const holdMs = 4 * latencyMs + dice.int(1, storeOptions.commandTimeoutMs / 2);
  const when = messageSince(frame, 'asked', { message: messages.acquire, of: holder });
  const reply = messageSince(frame, 'asked', { message: `re:${messages.acquire}`, of: holder });
  const work = [{ do: 'sleep', ms: Math.floor(watchdogTimeoutMs * 0.9) }] as const;
  return {
    calls: [
      callOf(frame, { process: holder, work }),
      callOf(frame, {
        process: waiter,
        afterMs: dice.int(1, Math.max(2, Math.floor(holdMs / 2))),
        options: { waitMs: 'Infinity' },
        work,
      }),
    ],
    faults: [
      { when: reply, act: { do: 'hold', ms: holdMs } },
      { when, afterMs: 2 * latencyMs + dice.int(1, holdMs), act: { do: 'force', who: waiter, key } },
    ],
  };
}
