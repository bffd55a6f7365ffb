import { describe, expect, it } from '@jest/globals';
import { Command } from 'ioredis';
import { slotOf } from './cluster.js';

describe('the slot of a cluster', () => {
  it.each(['', '123456789', 'goods:42', 'goods:{42}:stock', '{}x', 'a{b', '{a}{b}', 'schlüssel', '鍵:😀'])(
    'of "%s" is where ioredis looks for it',
    (name) => expect(slotOf(name)).toBe(new Command('get', [name]).getSlot()),
  );
});
