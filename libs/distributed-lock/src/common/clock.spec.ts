import { expect, it } from '@jest/globals';
import { timerDelay } from './clock.js';

it.each([
  [-0.4, 0],
  [-Infinity, 0],
  [0, 0],
  [1.5, 1.5],
  [2 ** 31 - 1, 2 ** 31 - 1],
  [2 ** 31, 2 ** 31 - 1],
  [Infinity, 2 ** 31 - 1],
])('a timer for %d ms is one that Node starts without a warning, and not too early', (ms, delay) => {
  expect(timerDelay(ms)).toBe(delay);
});
