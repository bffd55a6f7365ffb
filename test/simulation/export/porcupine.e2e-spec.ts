import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from '@jest/globals';
import type { ExportedHold, ExportedKey } from './exported.js';

const MAIN = fileURLToPath(new URL('../../../verification/porcupine/main.mjs', import.meta.url));
const BUILD_MS = 300_000;

function hold(from: number, other: Partial<ExportedHold> = {}): ExportedHold {
  const [ended, until] = [from + 1000, from + 5000];
  const claim = { claim: 'exclusive', weight: 1, permits: 1 } as const;
  const samples = [[from, until]] as const;
  return {
    call: `${from}`,
    process: `P${from}`,
    ...claim,
    token: from,
    asked: from,
    from,
    ended,
    samples,
    ...other,
  };
}

describe('Porcupine', () => {
  const folder = mkdtempSync(join(tmpdir(), 'porcupine-spec-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  /** @returns what it says of one key */
  function verdictOn(key: Partial<ExportedKey>): {
    readonly status: number | null;
    readonly verdict: string;
  } {
    const file = join(folder, 'history.jsonl');
    const keys = [{ key: 'k', broken: [], holds: [], losses: [], ...key }];
    writeFileSync(file, `${JSON.stringify({ store: 'redis', seed: '1', pauses: [], keys })}\n`);
    const { status, stdout } = spawnSync(process.execPath, [MAIN, '--file', file], { encoding: 'utf8' });
    return { status, verdict: /1 keys (.*)/.exec(stdout)?.[1] ?? stdout };
  }

  it(
    'agrees on a lock that was held by one after the other, and on one that two held at once',
    () => {
      const [inTurn, atOnce] = [2000, 1900].map((from) => [hold(1000), hold(from)]);
      expect(verdictOn({ holds: inTurn ?? [] })).toEqual({ status: 0, verdict: 'good for both' });
      const broken = verdictOn({ holds: atOnce ?? [], broken: ['exclusion'] });
      expect(broken).toEqual({ status: 0, verdict: 'broken for both' });
      const force = { kind: 'force', from: 1500, to: 1950 } as const;
      expect(verdictOn({ holds: atOnce ?? [], losses: [force] }).verdict).toBe('good for both');
    },
    BUILD_MS,
  );

  it('fails if one judge alone finds a lock broken', () => {
    const alone = { status: 1, verdict: 'BROKEN FOR PORCUPINE ALONE' };
    expect(verdictOn({ holds: [hold(1000), hold(1900)] })).toEqual(alone);
    // Also when any tokens may be granted.
    expect(verdictOn({ holds: [hold(1000), hold(1900)], fencedUntil: 1 })).toEqual(alone);
    expect(verdictOn({ holds: [hold(1000), hold(2000, { token: 1000 })] })).toEqual(alone);
    const again = hold(1000, { ended: 9000, samples: [1000, 5000].map((at) => [at, at + 500]) });
    expect(verdictOn({ holds: [again, hold(2000)] })).toEqual(alone);
    const reader = { claim: 'shared' } as const;
    const readers = [hold(1000, reader), hold(1500, reader)];
    expect(verdictOn({ holds: readers }).status).toBe(0);
    expect(verdictOn({ holds: [...readers, hold(1900)] })).toEqual(alone);
    const permit = { claim: 'permits', permits: 2 } as const;
    const permits = [hold(1000, permit), hold(1500, permit)];
    expect(verdictOn({ holds: permits }).status).toBe(0);
    expect(verdictOn({ holds: [...permits, hold(1900, permit)] })).toEqual(alone);
    const checker = { status: 1, verdict: 'BROKEN FOR THE CHECKER ALONE' };
    expect(verdictOn({ holds: [hold(1000), hold(2000)], broken: ['tokens'] })).toEqual(checker);
  });
});
