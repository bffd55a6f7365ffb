import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { describeLockStoreContract, ManualClock } from 'nestjs-distributed-lock/testing';
import { mapStore } from './own-store/map-store.js';

const read = (path: string) => readFileSync(new URL(path, import.meta.url), 'utf8');

describe('the page about a store of your own', () => {
  it('has the whole store, as it is tested here', () => {
    const page = read('../../docs/your-own-store.md');
    const store = read('own-store/map-store.ts').trim();
    expect(page).toContain(store);
    expect(store.split('\n').length).toBeLessThanOrEqual(200);
  });
});

describeLockStoreContract(
  'a store of your own',
  () => {
    const clock = new ManualClock();
    return { store: mapStore(), clock, pass: (ms) => clock.advance(ms) };
  },
  {
    force: 'left out of the page',
    takeover: 'left out of the page',
    attach: 'left out of the page',
    names: 'left out of the page',
    list: 'left out of the page',
  },
);
