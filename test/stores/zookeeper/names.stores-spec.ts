import { randomUUID } from 'node:crypto';
import { expect, it } from '@jest/globals';
import { until } from '#until';
import { eventsOf } from '../../support/events.js';
import { closeServices, type ServiceOptions } from '../../support/lock-services.js';
import { describeWith } from '../support/describe-with.js';
import { keysIn, pagesOf } from '../support/names.js';
import { ownZookeeper } from './support/own-zookeeper.js';
import { ZookeeperHand } from './support/zookeeper-hand.js';

const SHOP: ServiceOptions = { application: 'shop' };
/** A document of a process whose session is over. */
const GONE = JSON.stringify([1, 0, [['a:1', 'l', 1, 1, '+30000', null, 0, 'dead']], []]);

describeWith('zookeeper')('the names of holders in ZooKeeper', () => {
  const zookeeper = ownZookeeper();
  const openUnder = (root: string, options = SHOP) => zookeeper.open(zookeeper.server.url, { root }, options);

  it('are one znode for each client, which its session ends', async () => {
    const root = `/${randomUUID()}`;
    const service = openUnder(root, { ...SHOP, watchdogTimeoutMs: 5000 });
    await service.acquire('k', { site: 'import' });
    await Promise.all(Array.from({ length: 10 }, (_, i) => service.acquire(`k${i}`)));
    const holderEntries = () => zookeeper.hand.children(`${root}/i`);
    await until(async () => (await holderEntries()).length > 0);
    expect(await holderEntries()).toHaveLength(1);
    const other = openUnder(root);
    await until(async () => (await other.inspect('k'))?.heldBy[0]?.site === 'import');
    expect((await other.inspect('k'))?.heldBy).toMatchObject([
      { client: { application: 'shop', process: process.pid } },
    ]);
    await closeServices();
    expect(await holderEntries()).toEqual([]);
  });

  it('find their place also under a root that was made without one', async () => {
    const root = `/${randomUUID()}`;
    for (const path of ['', '/l', '/q', '/s', '/m']) await zookeeper.hand.create(root + path);
    const service = openUnder(root);
    await service.acquire('k', { site: 'import' });
    const other = openUnder(root);
    const siteOfHolder = async () => (await other.inspect('k'))?.heldBy[0]?.site;
    await until(async () => (await siteOfHolder()) !== undefined);
    expect(await siteOfHolder()).toBe('import');
  });

  it('are refused without a right to their place, which the client is told once, and keeps its locks', async () => {
    const root = `/${randomUUID()}`;
    const owner = new ZookeeperHand(zookeeper.server.port, 'other:secret');
    try {
      for (const path of ['', '/l', '/q', '/s', '/m']) await owner.create(root + path);
      await owner.create(`${root}/i`, '', 'own');
    } finally {
      await owner.close();
    }
    const service = openUnder(root, { ...SHOP, watchdogTimeoutMs: 5000 });
    const events = eventsOf(service);
    const lock = await service.acquire('k');
    const warnings = () => events.filter(({ type }) => type === 'warning');
    await until(() => warnings().length > 0);
    expect(warnings()).toMatchObject([
      {
        message: expect.stringMatching(
          /nobody sees the names .*no right to the znode: check the option auth/,
        ),
      },
    ]);
    expect((await openUnder(root).list()).entries).toMatchObject([{ key: 'k' }]);
    expect(await lock.release()).toBe('released');
  });
});

describeWith('zookeeper')('a list of locks in ZooKeeper', () => {
  const zookeeper = ownZookeeper();
  const openUnder = (root: string) => zookeeper.open(zookeeper.server.url, { root });

  it('has each key once, in the order of names, and pages without free ones', async () => {
    const root = `/${randomUUID()}`;
    const service = openUnder(root);
    const keys = Array.from({ length: 25 }, (_, i) => `goods:${String(i).padStart(2, '0')}`);
    const odd = ['goods:é', 'goods:/', 'goods:%', 'goods:.', 'goods:'];
    const locks = await Promise.all([...keys, ...odd, 'order:1'].map((key) => service.acquire(key)));
    await locks[3]?.release();
    const pages = await pagesOf(openUnder(root), 'goods:', 10);
    expect(pages.map(({ entries }) => entries.length)).toEqual([9, 10, 10]);
    expect(keysIn(pages)).toEqual([...keys.filter((_, i) => i !== 3), ...odd].sort());
    expect((await openUnder(root).list({ prefix: 'x' })).entries).toEqual([]);
  });

  it('has no znode that no client has made, and none that a killed process has left', async () => {
    const root = `/${randomUUID()}`;
    const service = openUnder(root);
    expect((await service.list()).entries).toEqual([]);
    await service.acquire('held');
    for (const name of ['%68%65%6c%64', '%zz', '%2F', 'other'])
      await zookeeper.hand.create(`${root}/l/${name}`, GONE);
    expect(keysIn(await pagesOf(service, '', 1))).toEqual(['held']);
  });
});
