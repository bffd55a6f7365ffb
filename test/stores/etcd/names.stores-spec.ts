import { beforeAll, describe, expect, it } from '@jest/globals';
import { until } from '#until';
import { eventsOf } from '../../support/events.js';
import { closeServices, failureOf } from '../../support/lock-services.js';
import { describeWith } from '../support/describe-with.js';
import { keysIn, pagesOf } from '../support/names.js';
import { ownEtcd } from './support/own-etcd.js';

const SHOP = { application: 'shop' };
const base64 = (text: string, encoding: BufferEncoding = 'utf8') =>
  Buffer.from(text, encoding).toString('base64');

describeWith('etcd')('the names of holders in etcd', () => {
  const etcd = ownEtcd();

  it('are one entry for each client, under the lease of its session', async () => {
    const service = etcd.open(etcd.url, {}, { ...SHOP, watchdogTimeoutMs: 6000 });
    await service.acquire(etcd.key, { site: 'import' });
    await Promise.all(Array.from({ length: 10 }, (_, i) => service.acquire(`${etcd.key}:${i}`)));
    await until(async () => (await etcd.list('i/')).length > 0);
    const [entry, ...more] = await etcd.list('i/');
    expect(more).toEqual([]);
    expect(entry?.lease).toBe((await etcd.session()).lease);
    const other = etcd.open(etcd.url, {}, SHOP);
    await until(async () => (await other.inspect(etcd.key))?.heldBy[0]?.site === 'import');
    expect((await other.inspect(etcd.key))?.heldBy).toMatchObject([
      { client: { application: 'shop', process: process.pid } },
    ]);
    await closeServices();
    expect(await etcd.list('i/')).toEqual([]);
  });

  it('and other keys under the root are no locks, and the sweeper leaves them alone', async () => {
    const service = await etcd.openReady(etcd.url, {}, SHOP);
    await service.acquire('held');
    await until(async () => (await etcd.list('i/')).length > 0);
    for (const key of ['i/held', 'x', 'l', 'l0', 'm/held']) await etcd.gateway.put(etcd.root + key, '[]');
    await etcd.gateway.put(`${etcd.root}l/free`, '[1,9000000000,[],[]]');
    await etcd.gateway.call('kv/put', { key: base64(`${etcd.root}l/h\xff`, 'latin1'), value: '' });
    expect(keysIn(await pagesOf(etcd.open(), '', 1))).toEqual(['held']);
    const before = await etcd.list('i/');
    await etcd.sweep('first');
    expect(await etcd.list('i/')).toEqual(before);
  });
});

describeWith('etcd')('a list of locks in etcd', () => {
  const etcd = ownEtcd();

  it('has each key once, in the order of names, with as many on a page as were asked for', async () => {
    const service = await etcd.openReady();
    const keys = Array.from({ length: 25 }, (_, i) => `goods:${String(i).padStart(2, '0')}`);
    const odd = ['goods:🔒', 'goods:\0', 'goods:é', 'goods:'];
    await Promise.all([...keys, ...odd, 'order:1'].map((key) => service.acquire(key)));
    const pages = await pagesOf(etcd.open(), 'goods:', 10);
    expect(pages.map(({ entries }) => entries.length)).toEqual([10, 10, 9]);
    expect(keysIn(pages)).toEqual(['goods:', 'goods:\0', ...keys, 'goods:é', 'goods:🔒']);
    const [first] = pages;
    expect((await etcd.open().list({ prefix: 'order:', cursor: first?.cursor })).entries).toHaveLength(1);
  });

  it('tells of a lock of a process that was killed as inspect does', async () => {
    const gone = JSON.stringify([1, 0, [['a:1', 'l', 1, 1, '+30000', null, 0, 'dead']], []]);
    await etcd.gateway.put(`${etcd.root}l/${etcd.key}`, gone);
    const service = etcd.open();
    expect(await service.inspect(etcd.key)).toBeNull();
    expect((await service.list()).entries).toEqual([]);
  });
});

describe('a user of etcd who may do what locks need', () => {
  describeWith('etcd')('and nothing else', () => {
    const etcd = ownEtcd();
    const auth = { user: 'app', password: 'correct-horse' };
    const root = 'narrow/';
    const under = (...prefixes: string[]) => prefixes.map((prefix) => root + prefix);
    beforeAll(async () => {
      await etcd.gateway.addUser('app', auth.password, under('l/', 'q/', 's/', 'm/'));
      await etcd.gateway.addUser('one', auth.password, under('l/one', 'q/', 's/', 'm/'));
      await etcd.gateway.enableUsers(auth.password);
    });

    it('is told once which right names need, and keeps its locks', async () => {
      const service = etcd.open(etcd.url, { root, auth }, { ...SHOP, watchdogTimeoutMs: 6000 });
      const events = eventsOf(service);
      const lock = await service.acquire(etcd.key, { waitMs: 10_000 });
      const warnings = () => events.filter(({ type }) => type === 'warning');
      await until(() => warnings().length > 0);
      expect(warnings()).toMatchObject([
        { message: expect.stringMatching(/nobody sees the names .*grant-permission <role> readwrite/) },
      ]);
      const other = etcd.open(etcd.url, { root, auth }, SHOP);
      const [{ owner } = {}] = service.held();
      expect((await other.list()).entries).toMatchObject([{ key: etcd.key, heldBy: [{ owner }] }]);
      expect(await lock.release()).toBe('released');
    });

    it('is told which right a list needs that begins outside of its keys', async () => {
      const service = etcd.open(etcd.url, { root, auth: { ...auth, user: 'one' } });
      const lock = await service.acquire('one', { waitMs: 10_000 });
      expect(await failureOf(service.list())).toMatchObject({
        reason: 'refused',
        message: expect.stringMatching(/grant-permission <role> readwrite --prefix=true <root>/),
      });
      expect(await lock.release()).toBe('released');
    });
  });
});
