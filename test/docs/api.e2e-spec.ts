import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

describe('the API reference', () => {
  it('says what the code says; if not: npm run docs:api', () => {
    const script = spawnSync(process.execPath, ['scripts/api-reference.mjs', '--print'], {
      cwd: ROOT,
      encoding: 'utf8',
    });
    expect(script.stderr).toBe('');
    const page = readFileSync(`${ROOT}/docs/api.md`, 'utf8');
    expect(page.split('\n')).toEqual(script.stdout.split('\n'));
    expect(page).toContain('### LockMetricsModule');
    expect(page).not.toMatch(/^\s*(private|protected)\b/m);
  }, 60_000);
});
