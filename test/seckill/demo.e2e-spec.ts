import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';

const PROGRAM = fileURLToPath(new URL('../../dist/apps/seckill/demo/main.js', import.meta.url));

const play = (...args: string[]) =>
  spawnSync(process.execPath, [PROGRAM, ...args], { encoding: 'utf8', timeout: 60_000 });

describe('the demo', () => {
  it('sells all of a small sale, proves it from the embedded database, and ends', () => {
    const { status, stdout, stderr } = play('--stock', '10', '--buyers', '100');
    expect(stderr).toBe('');
    expect(stdout).toMatch(/sold +\| +10 \|[^]*refused +\| +90 \|[^]*oversold +\| +0 \|/);
    expect(stdout).toContain('Proved by the database');
    expect(status).toBe(0);
  }, 60_000);

  it('says what it can do when asked for something else', () => {
    const { status, stderr } = play('--kill');
    expect(stderr).toContain('--kill needs --instances 2 or more.');
    expect(stderr).toContain('--no-lock');
    expect(status).toBe(1);
  });
});
