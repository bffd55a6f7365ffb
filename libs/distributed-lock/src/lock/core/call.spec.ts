import { describe, expect, it, jest } from '@jest/globals';
import fc from 'fast-check';
import { LinkedQueue } from '../../common/collections.js';
import { ManualClock } from '../../testing/manual-clock.js';
import type { LockRequest } from '../request/lock-request.js';
import { Call, WaitDeadlines } from './call.js';

/** Waiters in a queue, with the times at which their waits ended. */
class Line {
  readonly clock = new ManualClock();
  readonly waiters = new LinkedQueue<Call>();
  readonly told: { readonly waiter: Call; readonly at: number }[] = [];
  readonly deadlines = new WaitDeadlines(this.clock);

  join(waitMs: number): Call {
    const waiter = new Call(this, 0, { terms: { waitMs } } as LockRequest);
    waiter.waitingSince = this.clock.now();
    this.waiters.push(waiter);
    this.deadlines.watch(waiter);
    return waiter;
  }

  leave(waiter: Call): boolean {
    this.deadlines.unwatch(waiter);
    return this.waiters.remove(waiter);
  }

  onLate(waiter: Call): void {
    this.waiters.remove(waiter);
    this.told.push({ waiter, at: this.clock.now() });
  }
}

describe('the deadlines of a line', () => {
  it('are each met at their time, by those who still wait', async () => {
    const step = fc.record({
      waitMs: fc.integer({ min: 1, max: 300 }),
      passMs: fc.nat({ max: 9 }),
      leaves: fc.nat(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 200 }), async (steps) => {
        const line = new Line();
        const joined: Call[] = [];
        const left = new Set<Call>();
        for (const { waitMs, passMs, leaves } of steps) {
          joined.push(line.join(waitMs));
          await line.clock.advance(passMs);
          const leaving = joined[leaves % (2 * joined.length)];
          if (leaving && line.leave(leaving)) left.add(leaving);
        }
        await line.clock.advance(1000);
        const stayed = joined.filter((waiter) => !left.has(waiter));
        expect(new Map(line.told.map(({ waiter, at }) => [waiter, at]))).toEqual(
          new Map(stayed.map((waiter) => [waiter, waiter.deadline])),
        );
        expect(line.told.length).toBe(stayed.length);
      }),
    );
  });

  it('cost a few comparisons each, however unequal they are', async () => {
    const line = new Line();
    const count = 4096;
    const read = jest.spyOn(Call.prototype, 'deadline', 'get');
    for (let i = 0; i < count; i++) line.join(1 + ((i * 7919) % count));
    await line.clock.advance(count);
    const reads = read.mock.calls.length;
    read.mockRestore();
    expect(line.told).toHaveLength(count);
    expect(reads / count).toBeLessThan(6 * Math.log2(count));
  });

  it('keep no more of those who have left than there are who wait', () => {
    const line = new Line();
    const first = line.join(1000);
    for (let i = 0; i < 10_000; i++) line.leave(line.join(100_000));
    const { sorted } = line.deadlines as unknown as { sorted: readonly Call[] };
    expect(sorted.length).toBeLessThan(200);
    expect(sorted[0]).toBe(first);
  });
});
