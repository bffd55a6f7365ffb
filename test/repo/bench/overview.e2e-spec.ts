import { describe, expect, it } from '@jest/globals';
import { overview } from '../../../bench/src/report/overview.mjs';
import { SCENARIOS } from '../../../bench/src/scenarios/index.mjs';

const fair = { perSecond: 900, p99Ms: 5, p50Ms: 0.5, jain: 1, serverUs: 40, inUse: 0.9, commands: 0.01 };
const OURS = { ...fair, failures: 0, unfinished: 0 };
const FLOOR = { ...OURS, perSecond: 1000, p50Ms: 0.25, commands: 2 };
const STARVING = {
  ...OURS,
  perSecond: 90,
  p99Ms: 1500,
  p50Ms: 8,
  jain: 0.01,
  serverUs: 80,
  inUse: 0.95,
  commands: 2,
};
const REFUSING = { ...STARVING, perSecond: 80, p99Ms: 2, inUse: 0.8, commands: 3, failures: 300 };
const PATIENT = { ...STARVING, perSecond: 70, p99Ms: 250, p50Ms: 0.4, jain: 0.9, inUse: 0.7, commands: 99 };
const NAMES = {
  floor: FLOOR,
  ours: OURS,
  'ours-awaited': OURS,
  starving: STARVING,
  refusing: REFUSING,
  patient: PATIENT,
};
const rows = Object.entries(NAMES).map(([id, figures]) => ({ id, name: `${id} 1.0`, figures }));
const ran = (...ids: string[]) => ids.map((id) => ({ scenario: { id }, rows }));

const scenario = (id: string) => SCENARIOS.find((one: { id: string }) => one.id === id);
const claims = (id: string, known: object) => scenario(id).targets(known);
const route = (id: string, perSecond: number) => ({ id: `ours-${id}`, figures: { perSecond } });

describe('the short page of the benchmark', () => {
  it('sets four figures beside those of others, each with its command', () => {
    const [, , throughput, wait, commands, hop] = overview(ran('hot4', 'hop')).figures.split('\n');
    expect(throughput).toMatch(/\*\*900\*\* \| 90: starving 1\.0.* \| `npm run bench -- --only hot4` \|$/);
    expect(wait).toMatch(/\*\*5\.00 ms\*\* \| 250 ms: patient 1\.0/);
    expect(commands).toMatch(/\*\*0\.01\*\* \| 2\.00: starving 1\.0/);
    expect(hop).toMatch(
      /\*\*0\.50 ms\*\* \| 0\.25 ms: one bare `PUBLISH`.* `npm run bench -- --only hop` \|$/,
    );
  });

  it('says where others are as fast', () => {
    const { asFast } = overview(ran('serial', 'hot4-1ms', 'hop'));
    expect(asFast).toContain(
      '900 locks/s, in the other Node libraries 70 to 90 with a median of 80, and with two bare commands 1 000',
    );
    expect(asFast).toContain('wait at most 5.00 ms here, and 1 500 ms there');
    expect(asFast).toContain('patient 1.0 (0.40 ms, 70/s). Here: 0.50 ms, 900/s.');
  });

  it('leaves a figure out whose scenario has not run, or has run without others', () => {
    expect(overview([]).figures.split('\n')).toHaveLength(2);
    const alone = [{ scenario: { id: 'hot4' }, rows: rows.filter(({ id }) => id === 'ours') }];
    expect(overview(alone).figures.split('\n')).toHaveLength(2);
  });
});

describe('the limits of the benchmark', () => {
  const limited = (verdicts: { claim: string; limit: string }[]) => verdicts.filter(({ limit }) => limit);

  it('compare a locked route with one behind an interceptor that only opens an AsyncLocalStorage', () => {
    const rows = [route('bare', 100), route('context', 80), route('memory', 72), route('redis', 60)];
    const [verdict, ...others] = limited(claims('http', { rows }));
    expect(verdict).toMatchObject({ value: 0.9, limit: '≥ 0.9', outcome: 'reached' });
    expect(verdict?.claim).toContain('an interceptor that only opens an AsyncLocalStorage');
    expect(others).toEqual([]);
  });

  it('set no limit to Redis CPU beside a peer that starves others, and show its fairness', () => {
    const verdicts = claims('hot4-1ms', { ours: OURS, others: [STARVING, PATIENT] });
    expect(limited(verdicts)).toMatchObject([{ claim: 'share of the time that the lock is in use' }]);
    expect(verdicts).toContainEqual(expect.objectContaining({ value: 0.5, limit: '' }));
    expect(verdicts).toContainEqual(
      expect.objectContaining({ claim: 'fairness (Jain) of that peer', value: 0.01 }),
    );
  });

  it('set no limit to a thousand keys in use at once, and link to the recipe', () => {
    const costs = (id: string, us: number[]) =>
      us.map((us, i) => ({ id: `${id}-${10 ** i}`, figures: { us } }));
    const rows = [...costs('ours', [9, 3, 3, 6]), ...costs('floor', [9, 3, 3, 3])];
    expect(
      claims('scale-keys', { rows }).map(({ value, limit }: { value: number; limit: string }) => [
        value,
        limit,
      ]),
    ).toEqual([
      [2, ''],
      [2, ''],
    ]);
    expect(
      limited(claims('scale-waiters', { rows: costs('ours', [9, 3]).concat(costs('queue', [9, 3])) })),
    ).toHaveLength(1);
    expect(scenario('scale-keys').note).toContain(
      '(../../docs/recipes/limits.md#thousands-of-locks-at-once)',
    );
  });
});
