import { beforeAll, describe, expect, it } from '@jest/globals';
import { withoutPackages } from '../support/without-packages.js';
import { spawnGuarded } from '#processes';
import { until } from '#until';
import { ownRedis } from '../support/own-redis.js';
import { PROGRAM, runCli, runHere, startCli } from './support/cli.js';

const PASSWORD = 'hush%23hush';
const redis = ownRedis('cli');

describe('npx nestjs-distributed-lock, on a Redis with a password', () => {
  let url: string;
  beforeAll(async () => {
    await redis.eyes.client.call('ACL', 'SETUSER', 'ops', 'on', '>hush#hush', '~*', '&*', '+@all');
    url = redis.url.replace('//', `//ops:${PASSWORD}@`);
  });
  const cli = (...words: string[]) => runHere([...words, '--prefix', 'shop:'], { env: { LOCK_STORE: url } });
  const open = () => redis.open({ keyPrefix: 'shop:', application: 'shop' });

  it('lists the keys with their holders, as a table and as JSON', async () => {
    const locks = open();
    await using _ = await locks.acquire(['goods:1', 'goods:2', 'order:7'], { site: 'nightly import' });
    await until(async () => (await cli('ls')).out.includes('(nightly import)'));
    const { code, out } = await cli('ls', 'goods:');
    expect(code).toBe(0);
    const [head = '', first = '', second = '', ...rest] = out.trimEnd().split('\n');
    expect(head).toMatch(/^KEY +MODE +HOLDER +HELD +WAITING +LEASE$/);
    expect(first).toMatch(
      /^goods:1 +exclusive +shop on \S+, process \d+ \(nightly import\) +[\d.]+ s +0 +\d+ s$/,
    );
    expect([second.split(' ')[0], rest]).toEqual(['goods:2', []]);
    const lines = (await cli('ls', '--json')).out.trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject(
      ['goods:1', 'goods:2', 'order:7'].map((key) => ({ key, holders: [{ application: 'shop' }] })),
    );
  });

  it('says by its exit code that nothing was found', async () => {
    expect(await runCli(['ls', 'nothing:', '--store', url])).toEqual({
      code: 1,
      out: '',
      complaints: 'No key is held or waited for.\n',
    });
    expect(await cli('inspect', 'goods:42')).toMatchObject({ code: 1, out: '' });
    expect(await cli('release', 'goods:42', '--yes')).toMatchObject({ code: 1, out: '' });
  });

  it('inspects one key, whatever is in its name', async () => {
    const key = 'a b/\u001b[31m\u202e💥';
    await using _ = await open().acquire(key);
    const { code, out } = await cli('inspect', key);
    expect([code, out.split('\n')[0]]).toEqual([
      0,
      expect.stringMatching(/^a b\/\\u001b\[31m\\u202e💥: exclusive, token \d+, lease \d+ s$/),
    ]);
    expect(JSON.parse((await cli('inspect', key, '--json')).out)).toMatchObject({ key });
  });

  it('releases by force only with --yes where nobody can answer, and the holder is told', async () => {
    const lock = await open().acquire('goods:42');
    expect(await cli('release', 'goods:42')).toMatchObject({
      code: 2,
      complaints: expect.stringContaining('Add --yes'),
    });
    expect(lock.signal.aborted).toBe(false);
    expect(await cli('release', 'goods:42', '--yes')).toMatchObject({
      code: 0,
      out: '"goods:42": released\n',
    });
    await until(() => lock.signal.aborted);
    expect(await lock.release()).toBe('lost');
  });

  it.each([true, false])('asks at a terminal, and does as it is told: %s', async (answer) => {
    const lock = await open().acquire('goods:42');
    const words = ['release', 'goods:42', '--prefix', 'shop:', '--store', url];
    const { code, complaints } = await runHere(words, { answer });
    expect(complaints).toMatch(/^"goods:42" is held by .*its work goes on/s);
    expect([code, await lock.release()]).toEqual(answer ? [0, 'lost'] : [1, 'released']);
  });

  it('frees only the holder of its question, or one that is named: another that has the lock by then keeps it', async () => {
    const [one, two] = [open(), open()];
    const words = ['release', 'goods:42', '--prefix', 'shop:', '--store', url];
    const shown = await one.acquire('goods:42');
    const [owner = ''] = (await one.inspect('goods:42'))?.holders ?? [];
    let next: Awaited<ReturnType<typeof two.acquire>> | undefined;
    const answer = async () => {
      await shown.release();
      next = await two.acquire('goods:42');
      return true;
    };
    const isLeftAlone = { code: 1, out: '"goods:42": held by another one by now: nothing was done\n' };
    expect(await runHere(words, { answer })).toMatchObject(isLeftAlone);
    expect(await runHere([...words, '--yes', '--owner', owner])).toMatchObject(isLeftAlone);
    // Nobody is asked about a holder that is not meant.
    expect(await runHere([...words, '--owner', owner])).toMatchObject(isLeftAlone);
    expect(next?.signal.aborted).toBe(false);
    const [current = ''] = (await two.inspect('goods:42'))?.holders ?? [];
    expect(await runHere([...words, '--yes', '--owner', owner, '--owner', current])).toMatchObject({
      code: 0,
    });
    expect(await next?.release()).toBe('lost');
  });

  it('tells the holder who has released its lock by force', async () => {
    const lock = await open().acquire('goods:42');
    await cli('release', 'goods:42', '--yes', '--by', 'ann, ticket 7');
    await until(() => lock.signal.aborted);
    expect(String(lock.signal.reason)).toMatch(
      /released by force, by ann, ticket 7 \(nestjs-distributed-lock on /,
    );
    expect(await cli('ls', '--by', 'ann')).toMatchObject({ code: 2 });
  });

  it('watches until Ctrl-C, which ends it at once and leaves no connection', async () => {
    const clients = async () =>
      String(await redis.eyes.client.call('CLIENT', 'LIST')).split('user=ops').length - 1;
    const locks = open();
    const watching = startCli(['watch', '--prefix', 'shop:'], { env: { LOCK_STORE: url } });
    const lock = await locks.acquire('goods:42');
    await until(() => /goods:42 {2}held by .*, 0 waiting/.test(watching.out()));
    expect(await clients()).toBe(2);
    await lock.release();
    await until(() => /goods:42 {2}free/.test(watching.out()));
    watching.signal('SIGINT');
    expect(await watching.code).toBe(130);
    expect(watching.complaints()).toBe('');
    await until(async () => (await clients()) === 0);
  });

  it('ends without a word when nobody reads any more, as of | head', async () => {
    const locks = open();
    const watching = startCli(['watch', '--json', '--prefix', 'shop:'], { env: { LOCK_STORE: url } });
    let lock = await locks.acquire('goods:42');
    await until(() => watching.out().includes('goods:42'));
    watching.leave();
    let isOver = false;
    void watching.code.then(() => (isOver = true));
    await until(async () => {
      await lock.release();
      lock = await locks.acquire('goods:42');
      return isOver;
    });
    await lock.release();
    expect(watching.complaints()).toBe('');
  });

  it('watches the keys that begin with a text, as ls lists them, and no others', async () => {
    const locks = open();
    await using _ = await locks.acquire(['goods:1', 'order:1']);
    const watching = startCli(['watch', 'goods:', '--prefix', 'shop:'], { env: { LOCK_STORE: url } });
    await until(() => watching.out().includes('goods:1  held by'));
    await using __ = await locks.acquire('goods:2');
    await until(() => watching.out().includes('goods:2  held by'));
    watching.signal('SIGINT');
    expect(await watching.code).toBe(130);
    expect(watching.out()).not.toContain('order:1');
  });

  it('goes on to watch after a late answer, of which it complains once', async () => {
    const locks = open();
    const words = ['watch', '--prefix', 'shop:', '--timeout', '300'];
    const watching = startCli(words, { env: { LOCK_STORE: url } });
    await using _ = await locks.acquire('goods:1');
    await until(() => watching.out().includes('goods:1  held by'));
    await redis.server.pause();
    await until(() => watching.complaints().includes('Watching goes on.'));
    await redis.server.resume();
    await using __ = await locks.acquire('goods:2', { waitMs: 30_000 });
    await until(() => watching.out().includes('goods:2  held by'));
    watching.signal('SIGINT');
    expect(await watching.code).toBe(130);
    expect(watching.complaints().trimEnd().split('\n')).toHaveLength(1);
  });

  it('names who waits as it names who holds, and says when the lease was renewed', async () => {
    const lock = await open().acquire('goods:42', { site: 'nightly import' });
    const other = redis.open({ keyPrefix: 'shop:', application: 'importer' });
    const waiting = other.acquire('goods:42', { waitMs: Infinity });
    const inspected = async () => (await cli('inspect', 'goods:42')).out;
    await until(async () => /held by .*last renewed .*\nwaiting {2}importer on/.test(await inspected()));
    expect(await inspected()).toMatch(
      /^held by {2}shop on \S+, process \d+ \(nightly import\) for [\d.]+ s, last renewed [\d.]+ s ago\nwaiting {2}importer on \S+, process \d+$/m,
    );
    const json = JSON.parse((await cli('inspect', 'goods:42', '--json')).out) as object;
    expect(json).toMatchObject({
      holders: [{ renewedAgoMs: expect.any(Number) }],
      waiting: [expect.any(String)],
      waiters: [{ application: 'importer', process: process.pid }],
    });
    await lock.release();
    await (await waiting).release();
  });

  it('says by its exit code that its output could not be written', async () => {
    const line = 'exec "$0" "$1" --help > /dev/full';
    const { child, exited } = spawnGuarded('sh', ['-c', line, process.execPath, PROGRAM], { stdio: 'pipe' });
    let complaints = '';
    child.stderr!.on('data', (text: Buffer) => (complaints += text.toString()));
    await exited;
    expect([child.exitCode, complaints]).toEqual([4, expect.stringContaining('ENOSPC')]);
  });

  it('never prints a password, whatever goes wrong', async () => {
    const wrong = url.replace(PASSWORD, 'other%23secret');
    const nowhere = url.replace(/:\d+$/, ':1');
    const stores = [
      wrong,
      nowhere,
      url.replace('redis:', 'http:'),
      url.replace(/@.*/, '@'),
      `${nowhere}/x?password=hush`,
    ];
    for (const store of stores) {
      const { code, out, complaints } = await runCli(['ls', '--store', store, '--timeout', '200']);
      expect([2, 3]).toContain(code);
      expect(complaints.trimEnd().split('\n')).toHaveLength(1);
      expect(out + complaints).not.toMatch(/hush|secret/);
    }
  });

  it('says in one line what it could not reach', async () => {
    const { code, complaints } = await runHere(['ls', '--store', 'redis://127.0.0.1:1', '--timeout', '200']);
    expect([code, complaints]).toEqual([
      3,
      expect.stringMatching(/^Redis at 127\.0\.0\.1:1\/0 could not be reached: .*ECONNREFUSED.*\n$/),
    ]);
  });
});

const WITHOUT_CLIENTS = withoutPackages(/^(ioredis|mysql2|pg$|@grpc)/);

describe('without the package of a client', () => {
  const runWithout = (store: string) =>
    runCli(['ls', '--store', store, '--timeout', '200'], { node: ['--import', WITHOUT_CLIENTS] });

  it.each([
    ['redis://127.0.0.1', 'npm install ioredis'],
    ['mysql://127.0.0.1/app', 'npm install mysql2'],
    ['postgres://127.0.0.1/app', 'npm install pg'],
    ['etcd://127.0.0.1:2379', 'npm install @grpc/grpc-js'],
  ])('%s says in one line which one to install', async (store, says) => {
    const { code, complaints } = await runWithout(store);
    expect([code, complaints.trimEnd().split('\n')]).toEqual([2, [expect.stringContaining(says)]]);
  });

  it('a store that needs none is loaded all the same, because no other store is', async () => {
    const { code, complaints } = await runWithout('zookeeper://127.0.0.1:1');
    expect([code, complaints]).toEqual([3, expect.stringMatching(/ZooKeeper/)]);
  });
});
