import { describe, expect, it } from '@jest/globals';
import { ManualClock } from '../testing/manual-clock.js';
import { readClocks } from '../common/clock.js';
import { ServerClock } from './server-clock.js';

describe('the clock of a server', () => {
  it('is believed for less, the longer ago it was read: a grant may overtake the reply that tells the time', async () => {
    const clock = new ManualClock();
    const serverClock = new ServerClock(clock);
    const sent = readClocks(clock);
    serverClock.learn(1_000_000, sent, sent.now);
    expect(serverClock.validityOf(1_000_000, 1000)).toBe(sent.now + 970);
    const later = sent.now + 10_000;
    await clock.advance(10_000);
    // The server may have granted it 100 ms before this client believes so.
    expect(serverClock.validityOf(1_010_000, 1000)).toBe(later + 870);
  });

  it('is not believed at all when it was read so long ago that a lease may have run out meanwhile', async () => {
    const clock = new ManualClock();
    const serverClock = new ServerClock(clock);
    const sent = readClocks(clock);
    serverClock.learn(1_000_000, sent, sent.now);
    await clock.advance(3_600_000);
    expect(serverClock.validityOf(1_000_000 + 3_600_000, 10_000)).toBe(-Infinity);
  });
});
