import { describe, expect, it } from '@jest/globals';
import { Dice } from '../kernel/dice.js';
import { Kernel } from '../kernel/kernel.js';
import { Machine } from '../kernel/machine.js';
import { SimProcess } from '../kernel/process.js';
import { beginGrace, checkForced } from './grace.js';
import { History, type CallRecord, type HoldRecord } from './history.js';

const COMMAND_TIMEOUT_MS = 100;

function worldOf() {
  const kernel = new Kernel(new Dice('spec'));
  const history = new History(kernel);
  history.commandTimeoutMs = COMMAND_TIMEOUT_MS;
  return { kernel, history, process: new SimProcess('P0', kernel, new Machine(1, 0, 'exact')) };
}

function takerOf(process: SimProcess, graceMs: number): CallRecord {
  const asked = { askedAt: 0, askedAtOwn: process.monotonic, askedAtUptime: 0 };
  return { call: `${graceMs}`, process: 'P0', keys: ['k'], under: [], waitMs: 60_000, graceMs, ...asked };
}

function holdOf(call: string): HoldRecord {
  const claim = { claim: 'exclusive', weight: 1, permits: 1 } as const;
  return { call, process: 'P0', key: 'k', ...claim, token: 1, from: 0, samples: [] };
}

describe('the notice of a takeover', () => {
  it('leaves a holder the grace that it was told first, when it comes once more and late', () => {
    const check = (by: string, graceMs: number, isAsleep = false): number => {
      const { history, process } = worldOf();
      const record = holdOf('1');
      if (isAsleep) history.pauses.push({ process: 'P0', kind: 'suspend', from: 1, to: 2 });
      beginGrace(record, process, { graceMs: 2000, by: 'a' }, history);
      beginGrace(record, process, { graceMs, by }, history);
      return history.violations.length;
    };
    expect([check('a', 1900), check('a', 2000), check('a', 1900, true)]).toEqual([1, 0, 0]);
    // Another takeover, by the same process perhaps.
    expect([check('b', 1900), check('a', 1500)]).toEqual([0, 0]);
  });
});

describe('a takeover by force', () => {
  it('waits for as long as its notice may take, and for the rest of a minimum hold as long as the grace', async () => {
    const check = async (afterMs: number, holder = 'a:1'): Promise<number> => {
      const { kernel, history, process } = worldOf();
      history.calls.push(takerOf(process, 1000));
      await kernel.run(afterMs);
      checkForced(process, { key: 'k', holder, owner: 'P0:1' }, history);
      return history.violations.length;
    };
    // 1000 ms, 30 ms for clocks and timers, 250 ms and two commands.
    expect([await check(1470), await check(1480)]).toEqual([1, 0]);
    expect([await check(990, 'a:-1'), await check(1000, 'a:-1')]).toEqual([1, 0]);
  });

  it('may be that of a call which its owner has let in by then, and not of one that another owner has let in', async () => {
    const check = async (owner: string, afterMs = 1480): Promise<number> => {
      const { kernel, history, process } = worldOf();
      const taker = takerOf(process, 1000);
      history.calls.push({ ...taker, settledAt: 1300 }, takerOf(process, 9000));
      history.holds.push({ ...holdOf(taker.call), owner });
      await kernel.run(afterMs);
      checkForced(process, { key: 'k', holder: 'a:1', owner: 'P0:1' }, history);
      return history.violations.length;
    };
    expect([await check('P0:1'), await check('P0:2')]).toEqual([0, 1]);
    // Its own force is still too early.
    expect(await check('P0:1', 1470)).toBe(1);
  });

  it('may be that of a call that gave up while it was under way', async () => {
    const check = async (settledAt: number): Promise<number> => {
      const { kernel, history, process } = worldOf();
      history.calls.push({ ...takerOf(process, 500), settledAt }, takerOf(process, 9000));
      await kernel.run(1480);
      checkForced(process, { key: 'k', holder: 'a:1', owner: 'P0:1' }, history);
      return history.violations.length;
    };
    expect([await check(1380), await check(1379)]).toEqual([0, 1]);
  });
});
