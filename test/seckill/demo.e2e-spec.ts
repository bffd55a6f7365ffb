import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import { until } from '#until';
import { LIMIT_MS, OWN_SERVERS, programOf, runProgram } from './support/run-program.js';

describe('the demo', () => {
  it('sells all with the lock, oversells without it, notices a lost lock and outlives a killed holder', async () => {
    const { status, stdout } = await runProgram('demo/main', ['--stock', '30', '--buyers', '120']);
    expect(stdout).toContain('30 orders, 0 oversold, 90 buyers refused, 0 failed');
    expect(stdout).toMatch(/\d+ oversold\. \d+ orders took the stock from 30 to \d+ only/);
    expect(stdout).toMatch(/frozen for \d+ ms[^]*it noticed: (503 LOCK_LOST|409 STALE_TOKEN) to its buyer/);
    const [, leaseLeftMs, waitedMs] = /for another (\d+) ms[^]*bought (\d+) ms later/.exec(stdout)!;
    expect(Number(leaseLeftMs)).toBeGreaterThan(0);
    expect(Number(waitedMs)).toBeGreaterThanOrEqual(Number(leaseLeftMs) - 20);
    expect(status).toBe(0);
  }, 240_000);

  it('plays one scene alone', async () => {
    const { status, stdout } = await runProgram('demo/main', ['--scene', 'frozen']);
    expect([...stdout.matchAll(/^\d\. .+$/gm)].map(String)).toEqual(['1. A holder that is frozen']);
    expect(stdout).toMatch(/noticed: (503 LOCK_LOST|409 STALE_TOKEN) to its buyer, and nothing written/);
    expect(status).toBe(0);
  }, 240_000);

  it('prints what it can do when asked, and refuses what it cannot', async () => {
    const help = await runProgram('demo/main', ['--help']);
    expect(help).toMatchObject({ status: 0, stderr: '' });
    expect(help.stdout).toContain('npm run demo --');
    expect(await runProgram('demo/main', ['--instnces', '2'])).toMatchObject({ status: 1, stdout: '' });
    const unknown = await runProgram('demo/main', ['--scene', 'frozn']);
    expect(unknown.stderr).toContain('no scene "frozn": locked, unlocked, frozen, killed');
    const { status, stderr } = await runProgram('demo/main', ['--stock', '1e3']);
    expect(stderr).toContain('--stock must be a whole number from 1 to 999999; it is "1e3"');
    expect(status).toBe(1);
  }, 240_000);

  it('leaves no process behind when it is ended in mid-sale', async () => {
    const demo = spawn(process.execPath, [programOf('demo/main')], {
      env: { ...process.env, ...OWN_SERVERS },
    });
    try {
      let printed = '';
      demo.stdout.setEncoding('utf8').on('data', (text: string) => (printed += text));
      await until(() => printed.includes('1. '), LIMIT_MS);
      const children = childrenOf(demo.pid!);
      expect(children).toHaveLength(3);
      demo.kill('SIGINT');
      const [code] = await once(demo, 'exit');
      // What a shell makes of an end by SIGINT.
      expect(code).toBe(130);
      await until(() => !children.some(runs));
    } finally {
      demo.kill('SIGKILL');
    }
  }, 240_000);
});

describe('npm start', () => {
  it('serves the sale from several processes, which end with it even if it is killed', async () => {
    const start = spawn(process.execPath, [programOf('start'), '--instances', '2'], {
      env: { ...process.env, ...OWN_SERVERS },
    });
    try {
      let printed = '';
      start.stdout.setEncoding('utf8').on('data', (text: string) => (printed += text));
      await until(() => printed.includes('send in the crowd'), LIMIT_MS);
      const urls = [...printed.matchAll(/^instance [12] +(\S+)/gm)].map(([, url]) => url!);
      expect(urls).toHaveLength(2);
      for (const url of urls) expect(await (await fetch(url)).text()).toContain('<h1>Flash sale</h1>');
      const children = childrenOf(start.pid!);
      start.kill('SIGKILL');
      await until(() => !children.some(runs));
    } finally {
      start.kill('SIGKILL');
    }
  }, 240_000);

  it('says that its port is taken, and ends', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    try {
      const PORT = String((other.address() as AddressInfo).port);
      const { status, stderr } = await runProgram('start', [], { PORT });
      expect(stderr).toContain(`address already in use 127.0.0.1:${PORT}`);
      expect(status).toBe(1);
    } finally {
      other.close();
    }
  }, 240_000);

  it('prints what it can do when asked, and refuses what it cannot', async () => {
    expect(await runProgram('start', ['--help'])).toMatchObject({ status: 0, stderr: '' });
    const { status, stderr } = await runProgram('start', ['--instances', '99']);
    expect(stderr).toContain('a whole number from 1 to 8; it is "99"');
    expect(status).toBe(1);
  }, 240_000);
});

/** The processes that a process has started. */
function childrenOf(pid: number): readonly number[] {
  const { stdout } = spawnSync('ps', ['-A', '-o', 'pid=,ppid=,stat='], { encoding: 'utf8' });
  const rows = stdout
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/));
  return rows.filter(([, parent]) => Number(parent) === pid).map(([child]) => Number(child));
}

/** A zombie does not run any more. */
function runs(pid: number): boolean {
  const { stdout } = spawnSync('ps', ['-o', 'stat=', '-p', `${pid}`], { encoding: 'utf8' });
  return stdout.trim() !== '' && !stdout.trim().startsWith('Z');
}
