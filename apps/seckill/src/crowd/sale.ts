import { buy, type Outcome } from './buyer.js';

export interface SaleResult {
  readonly outcomes: Readonly<Record<Outcome, number>>;
  /** How long each buyer waited for an answer, in ms, shortest first. */
  readonly waitsMs: readonly number[];
  /** From the start to the last order and to the last answer, in ms. */
  readonly sellingMs: number;
  readonly totalMs: number;
}

export interface Sale {
  readonly goodsId: number;
  readonly buyers: number;
  /** The instances that run; asked before each attempt. */
  readonly urls: () => readonly string[];
  readonly onProgress: (answered: number, sold: number) => void;
}

/** So many buyers are under way at a time. */
const CONCURRENCY = 200;

export async function runSale({ goodsId, buyers, urls, onProgress }: Sale): Promise<SaleResult> {
  const outcomes = { sold: 0, refused: 0, failed: 0 };
  const waitsMs: number[] = [];
  const start = performance.now();
  let sellingMs = 0;
  let next = 0;

  async function serveBuyers(): Promise<void> {
    while (next < buyers) {
      const buyer = next++;
      let turn = buyer;
      const urlOf = () => urls()[turn++ % urls().length]!;
      const asked = performance.now();
      const outcome = await buy(urlOf, goodsId, `buyer-${buyer}`);
      outcomes[outcome]++;
      waitsMs.push(performance.now() - asked);
      if (outcome === 'sold') sellingMs = performance.now() - start;
      onProgress(waitsMs.length, outcomes.sold);
    }
  }

  await Promise.all(Array.from({ length: Math.min(CONCURRENCY, buyers) }, serveBuyers));
  return { outcomes, waitsMs: waitsMs.sort((a, b) => a - b), sellingMs, totalMs: performance.now() - start };
}
