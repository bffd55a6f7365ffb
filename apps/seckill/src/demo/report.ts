import type { DemoOptions } from './options.js';
import type { Proof } from './proof.js';
import type { SaleResult } from '../crowd/sale.js';

export function table(result: SaleResult, proof: Proof): string {
  const rows: [string, string][] = [
    ['sold', `${proof.orders}`],
    ['refused', `${result.outcomes.refused}`],
    ['failed', `${result.outcomes.failed}`],
    ['oversold', `${proof.oversold}`],
    ['stock left', `${proof.stockLeft}`],
    ['orders per second', perSecond(proof.orders, result.sellingMs)],
    ['answers per second', perSecond(result.waitsMs.length, result.totalMs)],
    ['wait p50', milliseconds(percentile(result.waitsMs, 0.5))],
    ['wait p99', milliseconds(percentile(result.waitsMs, 0.99))],
  ];
  const line = `+${'-'.repeat(21)}+${'-'.repeat(12)}+`;
  const body = rows.map(([name, value]) => `| ${name.padEnd(19)} | ${value.padStart(10)} |`);
  return [line, ...body, line].join('\n');
}

/** The mistakes of the sale; empty when it was correct. */
export function objections({ stock, buyers }: DemoOptions, { outcomes }: SaleResult, proof: Proof): string[] {
  const expected = Math.min(stock, buyers);
  const claims: [boolean, string][] = [
    [proof.orders === expected, `${proof.orders} orders in the database, expected ${expected}`],
    [proof.oversold === 0, `${proof.oversold} sold that were never there`],
    [proof.lost === 0, `stock left and orders do not add up to ${stock}: off by ${proof.lost}`],
    [outcomes.failed === 0, `${outcomes.failed} buyers without an answer`],
    [
      outcomes.sold === proof.orders,
      `${outcomes.sold} buyers were told "sold", the database has ${proof.orders}`,
    ],
  ];
  return claims.filter(([holds]) => !holds).map(([, objection]) => objection);
}

/** @param sorted shortest first */
function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.ceil(sorted.length * share) - 1] ?? 0;
}

function perSecond(count: number, ms: number): string {
  return ms > 0 ? ((count / ms) * 1000).toFixed(0) : '-';
}

function milliseconds(ms: number): string {
  return `${ms.toFixed(0)} ms`;
}
