import type { DemoOptions } from './options.js';
import type { Proof } from './proof.js';

/** Prints the result of the sale in plain words. @returns whether it was correct */
export function verdict({ locked, stock }: DemoOptions, failures: readonly string[], proof: Proof): boolean {
  if (!locked) console.log(withoutLock(stock, proof));
  else if (failures.length > 0) console.error(`FAILED: ${failures.join('; ')}`);
  else if (proof.stockLeft > 0) console.log('Proved by the database: every buyer got one, none lost.');
  else console.log('Proved by the database: all sold, none oversold, none lost.');
  return !locked || failures.length === 0;
}

function withoutLock(stock: number, { orders, stockLeft, oversold, lost }: Proof): string {
  if (lost >= 0) {
    return 'Nothing was oversold this time: too few buyers met. Without the lock that is luck; try more --buyers.';
  }
  const harm = oversold > 0 ? `${oversold} oversold` : `${-lost} sold twice`;
  return `${harm}: that is what the lock is for. ${orders} orders took the stock from ${stock} to ${stockLeft} only:
buyers who read the stock at the same time all wrote back the same number.`;
}
