import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { KINDS, runTrial, type Kind } from '../../../chaos/index.mjs';

describe('a trial with real processes', () => {
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'chaos-'));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  const kindNamed = (name: string) => KINDS.find((kind) => kind.name === name) as Kind;
  const run = (kind: Kind) => runTrial({ kind, seed: '1', seconds: 2, folder: join(folder, kind.name) });

  it('convicts a lock that never locks, of every crime', async () => {
    const { findings } = await run({ name: 'never-locks', says: 'grants everything', topology: 'none' });
    const rules = findings.map(({ rule }) => rule);
    expect(rules).toEqual(expect.arrayContaining(['exclusion', 'tokens', 'register']));
  }, 60_000);

  it.each([
    ['a process that holds a lock is killed', 'crash-holder'],
    ['one node of three hangs and wakes', 'quorum-node-frozen'],
  ])(
    'finds nothing when %s',
    async (_, name) => {
      const { findings, figures } = await run(kindNamed(name));
      expect(findings).toEqual([]);
      expect(figures.faults).toBeGreaterThan(0);
      expect(figures.sections).toBeGreaterThan(0);
    },
    60_000,
  );
});
