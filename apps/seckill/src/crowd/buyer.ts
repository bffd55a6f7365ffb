import { setTimeout as pause } from 'node:timers/promises';
import { post, type Answer } from './http-client.js';

export type Outcome = 'sold' | 'refused' | 'failed';

const ATTEMPTS = 20;
const PAUSE_MS = 100;

/**
 * Tries to buy one item, and tries again where that may help: the instance died, the lock was busy for too long or was
 * lost. A buyer whose answer got lost may find that the order had been placed: `ALREADY_BOUGHT` is then a sale.
 *
 * @param urlOf picks an instance for each attempt
 */
export async function buy(urlOf: () => string, goodsId: number, userId: string): Promise<Outcome> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const outcome = outcomeOf(await ask(urlOf(), goodsId, userId), attempt);
    if (outcome !== undefined) return outcome;
    await pause(PAUSE_MS);
  }
  return 'failed';
}

async function ask(url: string, goodsId: number, userId: string): Promise<Answer | undefined> {
  try {
    return await post(`${url}/goods/${goodsId}/purchase`, {}, { 'x-user-id': userId });
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
