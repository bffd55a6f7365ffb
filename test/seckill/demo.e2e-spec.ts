import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { until } from '#until';
import { sideBySide } from '../support/side-by-side.js';
import { LIMIT_MS, OWN_SERVERS, programOf, runProgram, type Ended } from './support/run-program.js';

const play = (...args: string[]) => runProgram('demo', args);

describe('the demo', () => {
  let small: Promise<Ended> | undefined;
  let withoutLock: Promise<Ended> | undefined;
  let killed: Promise<Ended> | undefined;

  beforeAll(() => {
    [small, withoutLock, killed] = sideBySide(2, [
      () => play('--stock', '10', '--buyers', '100'),
      () => play('--no-lock'),
      () => play('--instances', '3', '--kill', '--stock', '30', '--buyers', '120'),
    ]);
  });

  it('sells all of a small sale, proves it from the embedded database, and ends', async () => {
    const { status, stdout, stderr } = await small!;
    expect(stderr).toBe('');
    expect(stdout).toMatch(/sold +\| +10 \|[^]*refused +\| +90 \|[^]*oversold +\| +0 \|/);
    expect(stdout).toContain('Proved by the database');
    expect(status).toBe(0);
  }, 240_000);

  it('explains what went wrong without the lock', async () => {
    const { status, stdout } = await withoutLock!;
    expect(stdout).toMatch(/\d+ oversold: that is what the lock is for/);
    expect(stdout).toMatch(/\d+ orders took the stock from 100 to \d+ only/);
    expect(status).toBe(0);
  }, 240_000);

  it('kills the process that holds the lock, and another goes on when its lease is over, not before', async () => {
    const { status, stdout, stderr } = await killed!;
    expect(stderr).toBe('');
    expect(stdout).toMatch(/kill -9 instance \d \(process \d+\), which holds the lock/);
    const [, leaseLeftMs] = /(\d+) ms left/.exec(stdout)!;
    const [, afterMs] = /holds the lock (\d+) ms later/.exec(stdout)!;
    expect(Number(leaseLeftMs)).toBeGreaterThan(0);
    expect(Number(afterMs)).toBeGreaterThanOrEqual(Number(leaseLeftMs) - 20);
    expect(stdout).toMatch(/sold +\| +30 \|[^]*failed +\| +0 \|[^]*oversold +\| +0 \|/);
    expect(status).toBe(0);
  }, 240_000);

  it('prints what it can do when asked, and is content', async () => {
    const { status, stdout, stderr } = await play('--help');
    expect(stdout).toContain('npm run demo -- [options]');
    expect(stderr).toBe('');
    expect(status).toBe(0);
  });

  it('says what it can do when it is misspelt, and fails', async () => {
    const { status, stdout, stderr } = await play('--instnces', '2');
    expect(stderr).toContain('Did you mean --instances?');
    expect(stderr).toContain('--no-lock');
    expect(stdout).toBe('');
    expect(status).toBe(1);
  });

  it.each([
    ['1', 'redis', 'REDIS_URL', 'redis://me:swordfish@127.0.0.1:1', 'redis://127.0.0.1:1, but no Redis'],
    [
      '2',
      'mysql',
      'MYSQL_URL',
      'mysql://me:swordfish@127.0.0.1:1/shop',
      'mysql://127.0.0.1:1/shop, but no MySQL',
    ],
  ])(
    'says within seconds to %s instances with --store %s that %s names no server',
    async (instances, store, variable, url, problem) => {
      const args = ['--instances', instances, '--store', store];
      const { status, stdout, stderr } = await runProgram('demo', args, { [variable]: url });
      expect(stderr).toContain(`${variable} names ${problem} can be used there`);
      expect(stdout + stderr).not.toContain('swordfish');
      expect(status).toBe(1);
    },
    LIMIT_MS,
  );

  it('says no more when it is ended in mid-sale, and leaves no process behind', async () => {
    const demo = spawn(process.execPath, [programOf('demo'), '--instances', '2', '--stock', '1000'], {
      env: { ...process.env, ...OWN_SERVERS },
    });
    try {
      let printed = '';
      for (const stream of [demo.stdout, demo.stderr]) {
        stream.setEncoding('utf8').on('data', (text: string) => (printed += text));
      }
      await until(() => printed.includes('buyers answered'), LIMIT_MS);
      const children = childrenOf(demo.pid!);
      // A Redis and two instances, at least.
      expect(children.length).toBeGreaterThanOrEqual(3);
      demo.kill('SIGINT');
      const [code] = await once(demo, 'close');
      // What a shell makes of an end by SIGINT.
      expect(code).toBe(130);
      expect(printed.trim().split('\n').at(-1)).toMatch(/^ +\d+\/1000 buyers answered, \d+ orders$/);
      await until(() => !children.some(runs));
    } finally {
      demo.kill('SIGKILL');
    }
  }, 240_000);
});

describe('npm start', () => {
  it('says that its port is taken, and ends', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    try {
      const PORT = String((other.address() as AddressInfo).port);
      const { status, stderr } = await runProgram('serve', [], { PORT });
      expect(stderr).toContain(`Port ${PORT} on 127.0.0.1 is taken`);
      expect(stderr).not.toContain('    at ');
      expect(status).toBe(1);
    } finally {
      other.close();
    }
  }, 240_000);

  it('prints what it can do when asked, and refuses what it cannot', async () => {
    expect(await runProgram('serve', ['--help'])).toMatchObject({ status: 0, stderr: '' });
    const { status, stderr } = await runProgram('serve', ['--instances', '99']);
    expect(stderr).toContain('a whole number from 1 to 8; it is "99"');
    expect(status).toBe(1);
  }, 240_000);
});

/** The processes that it has started. */
function childrenOf(pid: number): readonly number[] {
  const { stdout } = spawnSync('ps', ['-A', '-o', 'pid=,ppid=,stat='], { encoding: 'utf8' });
  const rows = stdout
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/));
  return rows.filter(([, parent]) => Number(parent) === pid).map(([child]) => Number(child));
}

/** One that has ended and was not waited for yet does not run any more. */
function runs(pid: number): boolean {
  const { stdout } = spawnSync('ps', ['-o', 'stat=', '-p', `${pid}`], { encoding: 'utf8' });
  return stdout.trim() !== '' && !stdout.trim().startsWith('Z');
}
