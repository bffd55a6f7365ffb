import type { Scene, SceneFrame } from '../scene.js';
import { askingOf, callOf, messageSince, twoOf } from './aims.js';

/**
 * The watchdog renews two keys of a process in one round. Before the reply for the second one has come, the first one is kept for a short
 * time and then extended to a long one, whose request may be lost. Another process waits.
 *
 * The event loop is blocked while the round is due, so that the round and `keepFor` fall into the same turn. A caller with a lease of its own
 * has just asked for the second key, so that its renewal waits for that reply.
 */
export function keptWhileRenewed(frame: SceneFrame): Scene {
  const { dice, key, latencyMs, messages, storeOptions, watchdogTimeoutMs } = frame;
  const { commandTimeoutMs } = storeOptions;
  const [holder, waiter] = twoOf(frame);
  const second = `${key} beside`;
  const part = (of: number) => Math.floor(watchdogTimeoutMs * of);
  // A lease is renewed between 0.3 and 0.37 of its length.
  const [fromMs, blockMs] = [part(0.295), part(0.05)];
  const [askedMs, heldMs] = [Math.floor(0.8 * commandTimeoutMs), Math.floor(commandTimeoutMs / 2)];
  const extending = askingOf(frame, {
    work: [
      { do: 'sleep', ms: fromMs + Math.max(blockMs, askedMs) + dice.int(1, heldMs + 4 * latencyMs) },
      { do: 'extend', ms: 3 * watchdogTimeoutMs },
      { do: 'sleep', ms: watchdogTimeoutMs },
    ],
  });
  const asked = { event: 'asked' as const, nth: 2, key: second };
  const renewal = (nth: number) =>
    messageSince(frame, 'acquired', { message: messages.renew, of: holder, nth });
  return {
    calls: [
      callOf(frame, {
        process: holder,
        work: [
          { do: 'beside', call: extending },
          { do: 'sleep', ms: fromMs + blockMs - dice.int(1, Math.max(2, part(0.01))) },
          { do: 'keep for', ms: dice.int(part(0.1), part(0.4)) },
          { do: 'sleep', ms: watchdogTimeoutMs },
        ],
      }),
      callOf(frame, {
        process: holder,
        afterMs: dice.int(0, 3),
        keys: [second],
        work: [
          { do: 'sleep', ms: fromMs },
          { do: 'block', ms: blockMs },
          { do: 'sleep', ms: watchdogTimeoutMs },
        ],
      }),
      callOf(frame, {
        process: holder,
        afterMs: fromMs - dice.int(0, 20),
        keys: [second],
        options: { waitMs: 'Infinity', leaseMs: watchdogTimeoutMs },
      }),
      callOf(frame, { process: waiter, afterMs: dice.int(100, fromMs), options: { waitMs: 'Infinity' } }),
    ],
    faults: [
      {
        when: { message: messages.acquire, nth: 1, of: holder, since: asked },
        act: { do: 'hold', ms: askedMs },
      },
      { when: renewal(2), act: { do: 'hold', ms: heldMs } },
      ...(dice.happens(0.3) ? [{ when: renewal(dice.int(3, 5)), act: { do: 'lose' as const } }] : []),
    ],
  };
}
