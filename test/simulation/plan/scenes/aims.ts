import type { Asking, CallEvent, CallPlan, FaultPlan, Trigger } from '../plan.js';
import type { SceneFrame } from '../scene.js';

type Call = Partial<Asking> & { readonly process: number; readonly afterMs?: number };

/** A call of a scene, so long after it begins. */
export function callOf(frame: SceneFrame, { afterMs = 0, process, ...asking }: Call): CallPlan {
  return { process, atMs: frame.atMs + afterMs, ...askingOf(frame, asking) };
}

/** `withLock` on the key of the scene, by service 0. */
export function askingOf({ key }: SceneFrame, asking: Partial<Asking>): Asking {
  return { service: 0, how: 'withLock', keys: [key], options: {}, work: [], ...asking };
}

/** The n-th message of a kind that a process sends, or is sent, from an event of its own on the key of the scene on. */
export function messageSince(
  { key }: SceneFrame,
  event: CallEvent,
  { message, of, nth = 1 }: { readonly message: string; readonly of: number; readonly nth?: number },
): Trigger {
  return { message, nth, of, since: { event, nth: 1, key } };
}

/**
 * A message is under way for `ms` on a connection that breaks, so that its process goes on by another one. It is executed
 * after what the process sends meanwhile.
 */
export function late(frame: SceneFrame, when: Trigger, ms: number): readonly FaultPlan[] {
  return [
    { when, act: { do: 'hold', ms } },
    { when, afterMs: frame.dice.scale(1, 30), act: { do: 'reset', who: 'anyone' } },
  ];
}

/** Two different processes. */
export function twoOf({ dice, processes }: SceneFrame): readonly [number, number] {
  const first = dice.int(0, processes - 1);
  return [first, (first + dice.int(1, processes - 1)) % processes];
}
