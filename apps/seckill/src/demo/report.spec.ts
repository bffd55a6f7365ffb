import { describe, expect, it } from '@jest/globals';
import { objections } from './report.js';

const options = { stock: 10, buyers: 100, instances: 1, locked: true, kill: false };
const result = { outcomes: { sold: 10, refused: 90, failed: 0 }, waitsMs: [], sellingMs: 1, totalMs: 1 };
const proof = { orders: 10, stockLeft: 0, oversold: 0, lost: 0 };

describe('the verdict on a sale', () => {
  it('has no objection when all was sold, once', () => {
    expect(objections(options, result, proof)).toEqual([]);
    const fewBuyers = { ...options, buyers: 4 };
    const allServed = { ...result, outcomes: { sold: 4, refused: 0, failed: 0 } };
    expect(objections(fewBuyers, allServed, { orders: 4, stockLeft: 6, oversold: 0, lost: 0 })).toEqual([]);
  });

  it.each([
    ['oversold', { proof: { ...proof, orders: 12, oversold: 2 } }, '2 sold that were never there'],
    ['too few', { proof: { ...proof, orders: 9, lost: 1 } }, '9 orders in the database, expected 10'],
    ['lost stock', { proof: { ...proof, stockLeft: -1, lost: 1 } }, 'off by 1'],
    ['a buyer left alone', { outcomes: { sold: 10, refused: 89, failed: 1 } }, '1 buyers without an answer'],
    ['a false promise', { outcomes: { sold: 11, refused: 89, failed: 0 } }, '11 buyers were told "sold"'],
  ])('objects to %s', (_, seen, objection) => {
    const { outcomes = result.outcomes, proof: read = proof } = seen as Partial<{
      outcomes: typeof result.outcomes;
      proof: typeof proof;
    }>;
    expect(objections(options, { ...result, outcomes }, read).join()).toContain(objection);
  });
});
