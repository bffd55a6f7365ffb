import { setTimeout as pause } from 'node:timers/promises';

export interface Crowd {
  readonly buyers: number;
  /** Where a buyer buys: `/goods/1/purchase`. */
  readonly pathOf: (buyer: number) => string;
  /** How long each payment takes. */
  readonly payMs?: number;
  /** The instances. Buyers take turns, and go on to the next one if theirs does not answer. */
  readonly urls: readonly string[];
  /** Starts the names of the buyers; each of them buys an item once. */
  readonly name?: string;
  readonly onProgress?: (outcomes: Outcomes) => void;
  /** Sends the buyers home. */
  readonly signal?: AbortSignal;
}

export type Outcomes = Record<'sold' | 'refused' | 'failed', number>;

/** How many of them buy at the same time. */
const CONCURRENCY = 200;
const MAX_ATTEMPTS = 20;
const PAUSE_MS = 100;

/** Sends real requests of many buyers to the instances. */
export async function sendCrowd(crowd: Crowd): Promise<Outcomes> {
  const outcomes = { sold: 0, refused: 0, failed: 0 };
  let next = 0;
  const serveBuyers = async () => {
    while (next < crowd.buyers && !crowd.signal?.aborted) {
      outcomes[await buyInTurns(crowd, next++)]++;
      crowd.onProgress?.(outcomes);
    }
  };
  await Promise.all(Array.from({ length: Math.min(CONCURRENCY, crowd.buyers) }, serveBuyers));
  return outcomes;
}

/**
 * Tries to buy, and tries again where that may help: the instance died, the lock was busy for too long or was lost. A
 * buyer whose response got lost may find that the order had been placed: `ALREADY_BOUGHT` is then a sale.
 */
async function buyInTurns(crowd: Crowd, buyer: number): Promise<keyof Outcomes> {
  const { urls, pathOf, payMs = 0, name = 'buyer', signal } = crowd;
  for (let attempt = 0; attempt < MAX_ATTEMPTS && !signal?.aborted; attempt++) {
    const url = urls[(buyer + attempt) % urls.length]!;
    const response = await purchase(`${url}${pathOf(buyer)}`, `${name}-${buyer}`, payMs).catch(
      () => undefined,
    );
    if (response?.status === 201) return 'sold';
    if (response?.code === 'SOLD_OUT') return 'refused';
    if (response?.code === 'ALREADY_BOUGHT') return attempt > 0 ? 'sold' : 'failed';
    if (response && ![409, 423, 503].includes(response.status)) return 'failed';
    await pause(PAUSE_MS);
  }
  return 'failed';
}

/** One request of one buyer. Rejects if the connection breaks. */
export async function purchase(
  url: string,
  buyer: string,
  payMs = 0,
): Promise<{ status: number; code?: string }> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-user-id': buyer },
    body: JSON.stringify({ payMs }),
  });
  const { code } = (await response.json()) as { code?: string };
  return { status: response.status, ...(code === undefined ? {} : { code }) };
}
