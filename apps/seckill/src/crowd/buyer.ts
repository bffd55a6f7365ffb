import { setTimeout as pause } from 'node:timers/promises';
import { post, type Answer } from './http-client.js';
import type { Wish } from './wish.js';

export type Outcome = 'sold' | 'refused' | 'failed';

export interface Buyer {
  readonly userId: string;
  readonly wish: Wish;
  /** Picks an instance for each attempt. */
  readonly urlOf: () => string;
  readonly signal: AbortSignal | undefined;
}

const ATTEMPTS = 20;
const PAUSE_MS = 100;

/**
 * Tries to buy, and tries again where that may help: the instance died, the lock was busy for too long or was lost. A
 * buyer whose answer got lost may find that the order had been placed: `ALREADY_BOUGHT` is then a sale.
 */
export async function buy(buyer: Buyer): Promise<Outcome> {
  for (let attempt = 1; attempt <= ATTEMPTS && !buyer.signal?.aborted; attempt++) {
    const outcome = outcomeOf(await ask(buyer), attempt);
    if (outcome !== undefined) return outcome;
    await pause(PAUSE_MS);
  }
  return 'failed';
}

async function ask({ urlOf, wish, userId }: Buyer): Promise<Answer | undefined> {
  try {
    return await post(`${urlOf()}${wish.path}`, wish.body, { 'x-user-id': userId });
  } catch {
    return undefined;
  }
}

/** `undefined`: not known yet. */
function outcomeOf(answer: Answer | undefined, attempt: number): Outcome | undefined {
  if (answer === undefined) return undefined;
  const { status, body } = answer;
  if (status === 201) return 'sold';
  if (body['code'] === 'SOLD_OUT') return 'refused';
  if (body['code'] === 'ALREADY_BOUGHT') return attempt > 1 ? 'sold' : 'failed';
  return [409, 423, 503].includes(status) ? undefined : 'failed';
}
