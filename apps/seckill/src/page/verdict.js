import { lostOf, oversoldOf } from './figures.js';

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** The sale in one sentence, for whoever sees it for the first time. */
export function verdictOf({ crowd, goods }) {
  const oversold = sum(goods.map(oversoldOf));
  const lost = sum(goods.map(lostOf));
  if (oversold > 0 || lost > 0) {
    const harm = oversold > 0 ? `${oversold} sold that were never there` : `${lost} sold twice`;
    const why = 'buyers read the same stock before one of them had written it';
    return { text: `${harm}: ${why}. That is what the lock is for.`, isBad: true };
  }
  if (!crowd) return { text: '', isBad: false };
  const text = crowd.running
    ? 'For each item, one buyer at a time is served; the others wait in the queue.'
    : 'Nothing was oversold: for each item, one buyer at a time read the stock and wrote it.';
  return { text: crowd.locked ? text : '', isBad: false };
}
