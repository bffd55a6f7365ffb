import type { Chance } from '../../../time/chance.js';

/** So that the clients of an ensemble spread over its servers. */
export function shuffled<Item>(items: readonly Item[], chance: Chance): readonly Item[] {
  const all = [...items];
  for (let i = all.length - 1; i > 0; i--) {
    const j = Math.floor(chance.random() * (i + 1));
    [all[i], all[j]] = [all[j] as Item, all[i] as Item];
  }
  return all;
}
