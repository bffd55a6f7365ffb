import { describeLockStoreContract, FaultyStore, ManualClock } from 'nestjs-distributed-lock/testing';
import { describeBackEndCases } from '../support/back-end-cases.js';
import { memoryStore } from '../../libs/distributed-lock/src/memory/store.js';

describeLockStoreContract('memory', () => {
  const clock = new ManualClock();
  return { store: memoryStore(), clock, pass: (ms) => clock.advance(ms) };
});

// The network of the tests must keep the contract itself, and the store must bear repetition.
describeBackEndCases(
  'memory, with every command executed and every push delivered twice',
  () => {
    const clock = new ManualClock();
    const store = new FaultyStore(memoryStore(), {
      command: () => ({ executedAfterMs: [0, 0] }),
      notification: () => [0, 0],
    });
    return { store, clock, pass: (ms) => clock.advance(ms) };
  },
  {
    'what a client tells of itself is read by the others as it was written, until its lease is over':
      'a FaultyStore passes on what locks depend on, and nothing else',
    'keys that are held or waited for are listed in pages, as inspect tells of them, and no others':
      'as above',
  },
);
