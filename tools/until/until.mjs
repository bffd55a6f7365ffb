import { setTimeout as pause } from 'node:timers/promises';

const GIVE_UP_AFTER_MS = 20_000;
const EVERY_MS = 20;

/** @type {import('./index.d.mts').until} */
export async function until(condition, withinMs = GIVE_UP_AFTER_MS) {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const failure = await attempt(condition);
    if (failure === undefined) return;
    if (performance.now() > deadline) {
      throw new Error(`Not within ${withinMs} ms: ${condition.toString()}`, { cause: failure });
    }
    await pause(EVERY_MS);
  }
}

/**
 * @param {() => boolean | Promise<boolean>} condition
 * @returns {Promise<unknown>} `undefined` when the condition holds, otherwise why it does not
 */
async function attempt(condition) {
  try {
    return (await condition()) ? undefined : 'it was false';
  } catch (error) {
    return error;
  }
}
