import { setTimeout as pause } from 'node:timers/promises';

const GIVE_UP_AFTER_MS = 20_000;
const EVERY_MS = 20;

/** Resolves when `condition` holds; a condition that throws or rejects does not hold yet. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + GIVE_UP_AFTER_MS;
  for (;;) {
    const failure = await attempt(condition);
    if (failure === undefined) return;
    if (performance.now() > deadline) {
      throw new Error(`Not within ${GIVE_UP_AFTER_MS} ms: ${condition.toString()}`, { cause: failure });
    }
    await pause(EVERY_MS);
  }
}

/** @returns `undefined` when the condition holds, otherwise why it does not */
async function attempt(condition: () => boolean | Promise<boolean>): Promise<unknown> {
  try {
    return (await condition()) ? undefined : 'it was false';
  } catch (error) {
    return error;
  }
}
