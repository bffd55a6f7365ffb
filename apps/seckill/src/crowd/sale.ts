import { buy, type Outcome } from './buyer.js';
import type { Wish } from './wish.js';

export interface SaleResult {
  readonly outcomes: Readonly<Record<Outcome, number>>;
  /** How long each buyer waited for an answer, in ms, shortest first. */
  readonly waitsMs: readonly number[];
  /** From the start to the last order and to the last answer, in ms. */
  readonly sellingMs: number;
  readonly totalMs: number;
}

export interface Sale {
  readonly wishOf: (buyer: number) => Wish;
  readonly buyers: number;
  /** Starts the buyers' names. */
  readonly crowd?: string;
  /** The instances that run; asked before each attempt. */
  readonly urls: () => readonly string[];
  readonly onProgress: (answered: number, sold: number) => void;
  /** Sends the buyers home. */
  readonly signal?: AbortSignal;
}

/** The number of buyers that buy at the same time. */
const CONCURRENCY = 200;

export async function runSale(sale: Sale): Promise<SaleResult> {
  const { wishOf, buyers, crowd = 'buyer', urls, onProgress, signal } = sale;
  const outcomes = { sold: 0, refused: 0, failed: 0 };
  const waitsMs: number[] = [];
  const start = performance.now();
  let sellingMs = 0;
  let next = 0;

  async function serveBuyers(): Promise<void> {
    while (next < buyers && !signal?.aborted) {
      const buyer = next++;
      let turn = buyer;
      const urlOf = () => urls()[turn++ % urls().length]!;
      const asked = performance.now();
      const outcome = await buy({ urlOf, wish: wishOf(buyer), userId: `${crowd}-${buyer}`, signal });
      outcomes[outcome]++;
      waitsMs.push(performance.now() - asked);
      if (outcome === 'sold') sellingMs = performance.now() - start;
      onProgress(waitsMs.length, outcomes.sold);
    }
  }

  await Promise.all(Array.from({ length: Math.min(CONCURRENCY, buyers) }, serveBuyers));
  return { outcomes, waitsMs: waitsMs.sort((a, b) => a - b), sellingMs, totalMs: performance.now() - start };
}
