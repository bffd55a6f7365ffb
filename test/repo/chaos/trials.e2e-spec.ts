import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { runTrial, type Kind } from '../../../verification/chaos/index.mjs';

const NEVER_LOCKS: Kind = { name: 'never-locks', says: 'grants everything', topology: 'none' };

/** `npm run nightly -- faults` has the trials of the library, in which nothing must be found. */
it('a trial with real processes convicts a lock that never locks, of every crime', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'chaos-'));
  try {
    const { findings } = await runTrial({ kind: NEVER_LOCKS, seed: '1', seconds: 2, folder });
    const rules = findings.map(({ rule }) => rule);
    expect(rules).toEqual(expect.arrayContaining(['exclusion', 'tokens', 'register']));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}, 60_000);
