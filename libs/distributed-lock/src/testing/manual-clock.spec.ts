import { describe, expect, it } from '@jest/globals';
import { ManualClock } from './manual-clock.js';

describe('the manual clock', () => {
  it('fires timers at their times and in order, those of one moment in order of their making', async () => {
    const clock = new ManualClock();
    const fired: string[] = [];
    const note = (name: string) => () => void fired.push(`${name} at ${clock.now()}`);
    clock.after(20, note('late'));
    clock.after(10, note('first'));
    clock.after(10, note('second'));
    await clock.advance(30);
    expect(fired).toEqual(['first at 10', 'second at 10', 'late at 20']);
    expect(clock.now()).toBe(30);
  });

  it('lets what follows from one timer happen before the next one fires', async () => {
    const clock = new ManualClock();
    const seen: string[] = [];
    const pause = (ms: number) => new Promise<void>((resolve) => clock.after(ms, resolve));
    const twice = async () => {
      await pause(10);
      seen.push(`one at ${clock.now()}`);
      await pause(5);
      seen.push(`two at ${clock.now()}`);
    };
    const done = twice();
    clock.after(16, () => seen.push('other'));
    await clock.advance(20);
    await done;
    expect(seen).toEqual(['one at 10', 'two at 15', 'other']);
  });

  it('does not fire what was cancelled, nor what is not due', async () => {
    const clock = new ManualClock();
    const fired: string[] = [];
    const cancel = clock.after(5, () => fired.push('cancelled'));
    clock.after(11, () => fired.push('later'));
    cancel();
    cancel();
    await clock.advance(10);
    expect(fired).toEqual([]);
    expect(clock.pendingTimers).toBe(1);
  });

  it('emits an interval every so often until it is unsubscribed, also from within', async () => {
    const clock = new ManualClock();
    const seen: string[] = [];
    const rounds = clock.interval(10).subscribe((n) => {
      seen.push(`${n} at ${clock.now()}`);
      if (n === 2) rounds.unsubscribe();
    });
    await clock.advance(100);
    expect(seen).toEqual(['0 at 10', '1 at 20', '2 at 30']);
    expect(clock.pendingTimers).toBe(0);
  });

  it('fires what a stall has missed as soon as it goes on, without going back in time', async () => {
    const clock = new ManualClock();
    const fired: number[] = [];
    clock.after(10, () => fired.push(clock.now()));
    clock.stall(50);
    expect(fired).toEqual([]);
    await clock.advance(1);
    expect(fired).toEqual([50]);
    expect(clock.now()).toBe(51);
  });
});
