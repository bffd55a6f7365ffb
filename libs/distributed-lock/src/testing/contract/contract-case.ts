import type { Bench } from './bench.js';

/** One thing that every store promises. */
export interface ContractCase {
  /** A sentence that is true of a correct store. */
  readonly claim: string;
  readonly check: (bench: Bench) => Promise<void>;
}

/** Cases by the name under which a store can declare that it deviates. */
export type ContractGroup = Readonly<Record<string, ContractCase>>;

export function promise(claim: string, check: (bench: Bench) => Promise<void>): ContractCase {
  return { claim, check };
}
