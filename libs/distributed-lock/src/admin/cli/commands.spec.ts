import { expect, it } from '@jest/globals';
import { tableOf } from './commands.js';

const ROWS = [
  ['KEY', 'HOLDER', 'LEASE'],
  ['goods:42', 'shop on pod-7, process 4711 (GoodsController.purchase)', '22 s'],
  ['x'.repeat(300), '', '3 min'],
];

it.each([40, 80, 120])('a table fits a terminal of %s columns, and cuts the widest columns', (width) => {
  const lines = tableOf(ROWS, width);
  expect(lines.filter((line) => line.length > width)).toEqual([]);
  expect(lines[1]).toMatch(/goods:42/);
  expect(lines[1]).toMatch(/22 s$/);
  expect(lines[2]).toContain('…');
});

it('a table that no terminal shows is not cut', () => {
  expect(tableOf(ROWS, Infinity)[2]).toContain('x'.repeat(300));
});
