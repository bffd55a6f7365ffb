import { describe, expect, it } from '@jest/globals';
import { shrink } from '../shrink.js';
import type { CallPlan, LockedPlan, Plan, ProcessPlan } from './plan.js';

const LOCKED: LockedPlan = { keys: 'templates', gives: 'generator', reader: 'drops', isFree: true };
const CALL: CallPlan = {
  process: 0,
  atMs: 0,
  service: 0,
  how: 'method',
  keys: ['key0'],
  options: {},
  locked: LOCKED,
  work: [],
};
const PROCESS: ProcessPlan = {
  rate: 1,
  offsetMs: 0,
  services: 1,
  isNamed: true,
  settings: { shutdownGraceMs: 0 },
};
const PLAN: Plan = {
  store: 'documents',
  seed: 'a',
  watchdogTimeoutMs: 1000,
  storeOptions: { commandTimeoutMs: 300 },
  latency: { least: 1, spread: 0 },
  processes: [PROCESS],
  calls: [CALL],
  faults: [],
  calm: 'without scenes',
};
/** What is left of the call, when a plan fails as long as its call is so. */
const callOf = async (isBad: (call: CallPlan) => boolean) =>
  (await shrink(PLAN, async ({ calls }) => calls.some(isBad))).calls[0];

describe('a plan that is shrunk', () => {
  it('keeps of a method with @Locked what its failure needs', async () => {
    const { locked: _, ...plain } = CALL;
    expect(await callOf(() => true)).toEqual({ ...plain, how: 'withLock' });
    expect(await callOf(({ how }) => how === 'method')).toEqual(plain);
    expect(await callOf(({ locked }) => locked?.isFree === true)).toEqual({
      ...CALL,
      locked: { keys: 'function', gives: 'generator', isFree: true },
    });
    expect(await callOf(({ locked }) => locked?.reader === 'drops')).toEqual({
      ...CALL,
      locked: { keys: 'function', gives: 'generator', reader: 'drops' },
    });
    expect(await callOf(({ locked }) => locked?.keys === 'templates')).toEqual({
      ...CALL,
      locked: { keys: 'templates', gives: 'promise' },
    });
  });

  it('keeps of the configuration of a process what its failure needs', async () => {
    const { settings, ...named } = PROCESS;
    const { isNamed: _, ...plain } = named;
    const processOf = async (isBad: (process: ProcessPlan) => boolean) =>
      (await shrink(PLAN, async ({ processes }) => processes.some(isBad))).processes[0];
    expect(await processOf((it) => it.isNamed === true)).toEqual(named);
    expect(await processOf((it) => it.settings?.shutdownGraceMs === 0)).toEqual({ ...plain, settings });
  });
});
