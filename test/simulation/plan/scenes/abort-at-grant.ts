import type { Scene, SceneFrame } from '../scene.js';
import { callOf, messageSince, twoOf } from './aims.js';

/** Far beyond the scene: an `abort` comes first. */
const NEVER_MS = 600_000;

/**
 * A waiter is aborted, or its wait ends, while its grant is under way. Behind it waits another caller of its process, perhaps, and one
 * of another process.
 */
export function abortAtGrant(frame: SceneFrame): Scene {
  const { dice, key, latencyMs, messages } = frame;
  const [holder, waiter] = twoOf(frame);
  const workMs = 300 + 2 * latencyMs;
  const askedMs = dice.scale(10, 200);
  const underWayMs = dice.scale(1, 5 * latencyMs);
  const isAborted = dice.happens(0.7);
  const work = [{ do: 'sleep' as const, ms: dice.scale(1, 300) }];
  const aborts = { do: 'abort' as const, who: waiter };
  const when = dice.happens(0.5)
    ? ({ event: 'ended', nth: 1, of: holder, key } as const)
    : messageSince(frame, 'asked', { message: messages.granted, of: waiter });
  return {
    calls: [
      callOf(frame, { process: holder, work: [{ do: 'sleep', ms: workMs }] }),
      callOf(frame, {
        process: waiter,
        afterMs: askedMs,
        options: { waitMs: isAborted ? 'Infinity' : workMs - askedMs + underWayMs },
        ...(isAborted && { abortAfterMs: NEVER_MS }),
        work,
      }),
      ...(dice.happens(0.5)
        ? [callOf(frame, { process: waiter, afterMs: askedMs + 5, options: { waitMs: 'Infinity' }, work })]
        : []),
      callOf(frame, {
        process: holder,
        afterMs: askedMs + dice.scale(10, 100),
        options: { waitMs: 'Infinity' },
        work,
      }),
    ],
    faults: isAborted ? [{ when, afterMs: underWayMs, act: aborts }] : [],
  };
}
