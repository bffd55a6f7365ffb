import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { kindsOf, runTrial, type Kind } from '../../../chaos/index.mjs';
import { sideBySide } from '../../support/side-by-side.js';

const kindNamed = (name: string) => kindsOf('redis').find((kind) => kind.name === name) as Kind;
const NEVER_LOCKS: Kind = { name: 'never-locks', says: 'grants everything', topology: 'none' };
const CALM = [
  ['a process that holds a lock is killed', kindNamed('crash-holder')],
  ['one node of three hangs and wakes', kindNamed('quorum-node-frozen')],
] as const;

describe('a trial with real processes', () => {
  let folder: string;
  let trials: ReadonlyMap<Kind, ReturnType<typeof runTrial>>;
  const trialOf = (kind: Kind) => trials.get(kind) as ReturnType<typeof runTrial>;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'chaos-'));
    const kinds = [NEVER_LOCKS, ...CALM.map(([, kind]) => kind)];
    const runs = kinds.map(
      (kind) => () => runTrial({ kind, seed: '1', seconds: 2, folder: join(folder, kind.name) }),
    );
    const results = sideBySide(2, runs);
    trials = new Map(kinds.map((kind, i) => [kind, results[i] as ReturnType<typeof runTrial>]));
  });
  afterAll(async () => {
    await Promise.allSettled(trials.values());
    await rm(folder, { recursive: true, force: true });
  });

  it('convicts a lock that never locks, of every crime', async () => {
    const { findings } = await trialOf(NEVER_LOCKS);
    const rules = findings.map(({ rule }) => rule);
    expect(rules).toEqual(expect.arrayContaining(['exclusion', 'tokens', 'register']));
  }, 60_000);

  it.each(CALM)(
    'finds nothing when %s',
    async (_, kind) => {
      const { findings, figures } = await trialOf(kind);
      expect(findings).toEqual([]);
      expect(figures.faults).toBeGreaterThan(0);
      expect(figures.sections).toBeGreaterThan(0);
    },
    60_000,
  );
});
