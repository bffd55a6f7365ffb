import { expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import { zookeeperStore } from 'nestjs-distributed-lock/zookeeper';
import { until } from '#until';
import { eventsOf } from '../../support/events.js';
import { failureOf, untilAborted } from '../../support/lock-services.js';
import { describeWith } from '../support/describe-with.js';
import { PATIENT } from '../../support/patient.js';
import { describeCrowd } from '../support/crowd.contract.js';
import { describeFaults } from '../support/faults.contract.js';
import { ownZookeeper } from './support/own-zookeeper.js';

describeWith('zookeeper')('a service on ZooKeeper, when something fails', () => {
  const zookeeper = ownZookeeper();
  const works = async (service: LockService, key = zookeeper.key) => {
    await service.withLock(key, { waitMs: 10_000 }, () => undefined);
  };
  const isInStoreQueue = async (service: LockService) =>
    (await service.inspect(zookeeper.key))?.pending.length === 1;

  describeFaults({
    product: 'ZooKeeper',
    get server() {
      return zookeeper.server;
    },
    get key() {
      return zookeeper.key;
    },
    open: () => zookeeper.openProxied(),
    disconnect: () => zookeeper.proxy.open.forEach((link) => link.reset()),
    nowhere: zookeeperStore('127.0.0.1:1'),
  });

  // That it keeps its locks then: test/simulation/backends/zookeeper/far-servers.e2e-spec.ts, in virtual time.
  it('has a longer session while a round trip takes more than a tenth of the watchdog timeout, and warns of that', async () => {
    const watchdogTimeoutMs = 3000;
    zookeeper.proxy.onLink = ({ requests, replies }) => {
      for (const flow of [requests, replies]) flow.pass(175);
    };
    const service = zookeeper.open(zookeeper.proxied, {}, { watchdogTimeoutMs });
    const events = eventsOf(service);
    await service.withLock(zookeeper.key, { waitMs: 30_000 }, () => undefined);
    const warnings = events.flatMap((event) => (event.type === 'warning' ? event.message : []));
    expect(warnings).toEqual([
      expect.stringMatching(
        /^A round trip to ZooKeeper \(127.+\) takes \d+ ms, .+ the session is \d+ ms long, and not watchdogTimeoutMs \(3000\): .+ set watchdogTimeoutMs to \d+\.$/,
      ),
    ]);
  });

  it('grants nobody by a take that the server reads after its release', async () => {
    const service = await zookeeper.openProxied();
    const { link } = zookeeper;
    link.requests.hold();
    expect(await failureOf(service.tryAcquire(zookeeper.key))).toMatchObject({ reason: 'unknown' });
    // The release goes on over a new connection, which ends the old one on the server.
    await works(service, `${zookeeper.key}:other`);
    link.deliverLate();
    await works(service, `${zookeeper.key}:third`);
    await until(async () => {
      const text = await zookeeper.hand.textOf(zookeeper.key);
      return text === undefined || text.endsWith(',[],[]]');
    });
    expect(await service.inspect(zookeeper.key)).toBeNull();
  });

  it('does not keep the lock of a take whose reply was lost, when its caller does not wait for another try', async () => {
    const service = await zookeeper.openProxied();
    zookeeper.link.replies.drop();
    expect(await failureOf(service.tryAcquire(zookeeper.key))).toMatchObject({ reason: 'unknown' });
    await zookeeper.untilFree(zookeeper.key);
    await works(service);
  });

  it('makes its mailbox again when it was deleted by hand', async () => {
    const service = await zookeeper.openProxied();
    const [mailbox] = await zookeeper.hand.children('/nest-lock/m');
    await zookeeper.hand.delete(`/nest-lock/m/${mailbox}`);
    await until(async () => (await zookeeper.hand.children('/nest-lock/m')).includes(mailbox as string));
    await works(service);
    expect(await zookeeper.hand.children('/nest-lock/m')).toHaveLength(1);
  });

  it('loses what it holds when its session is expired by hand, and goes on with another', async () => {
    const service = await zookeeper.openProxied();
    const lock = await service.acquire(`${zookeeper.key}:held`);
    const [session] = await zookeeper.hand.children('/nest-lock/s');
    await zookeeper.hand.expire(session as string);
    await untilAborted(lock.signal);
    await works(service, `${zookeeper.key}:held`);
    expect(await zookeeper.hand.children('/nest-lock/s')).not.toContain(session);
  });

  it('loses what it holds when its presence is deleted by hand, since others take it', async () => {
    const before = await zookeeper.hand.children('/nest-lock/s').catch((): readonly string[] => []);
    const service = await zookeeper.openProxied();
    const lock = await service.acquire(`${zookeeper.key}:held`);
    const session = (await zookeeper.hand.children('/nest-lock/s')).find((id) => !before.includes(id));
    const other = zookeeper.open();
    await zookeeper.hand.delete(`/nest-lock/s/${session}`);
    const taken = await other.acquire(`${zookeeper.key}:held`, { waitMs: 5000 });
    await failureOf(works(service));
    await untilAborted(lock.signal);
    await works(service);
    expect(await taken.release()).toBe('released');
  });

  it('takes a lock whose document was deleted by hand, and tells the holder', async () => {
    const service = await zookeeper.openProxied({}, { watchdogTimeoutMs: 3000 });
    const other = zookeeper.open();
    const lock = await service.acquire(zookeeper.key);
    await zookeeper.hand.delete(`/nest-lock/l/${zookeeper.key}`);
    const taken = await other.acquire(zookeeper.key, { waitMs: 5000 });
    await untilAborted(lock.signal);
    expect(taken.fencingToken).toBeGreaterThan(lock.fencingToken);
    await taken.release();
  });

  it('makes the parent of the notes again when it was deleted by hand', async () => {
    const service = await zookeeper.openProxied();
    const other = zookeeper.open();
    const lock = await service.acquire(zookeeper.key);
    await zookeeper.hand.delete(`/nest-lock/q/${zookeeper.key}`);
    const waiting = other.acquire(zookeeper.key, { waitMs: 10_000 });
    await until(() => isInStoreQueue(service));
    await lock.release();
    expect(await (await waiting).release()).toBe('released');
    await zookeeper.hand.delete(`/nest-lock/q/${zookeeper.key}`);
    await works(service);
    await works(other);
  });

  it('makes the root again when all was deleted by hand, and begins a new session', async () => {
    const service = await zookeeper.openProxied();
    const lock = await service.acquire(`${zookeeper.key}:held`);
    await zookeeper.hand.delete('/nest-lock');
    await failureOf(works(service));
    await works(service);
    await untilAborted(lock.signal);
    expect(await zookeeper.hand.children('/nest-lock/s')).toHaveLength(1);
  });

  it('ignores what others have put beside a document or into a mailbox', async () => {
    const service = await zookeeper.openProxied();
    const other = zookeeper.open();
    const lock = await service.acquire(zookeeper.key);
    await zookeeper.hand.create(`/nest-lock/q/${zookeeper.key}/not a note`);
    const waiting = other.acquire(zookeeper.key, { waitMs: 10_000 });
    await until(() => isInStoreQueue(service));
    for (const mailbox of await zookeeper.hand.children('/nest-lock/m')) {
      for (const text of [
        '',
        'x',
        '[]',
        '{}',
        '[1]',
        'null',
        JSON.stringify([1, zookeeper.key, 1, 1, 1, '[', [], 0]),
      ]) {
        await zookeeper.hand.set(`/nest-lock/m/${mailbox}`, text);
      }
    }
    await lock.release();
    expect(await (await waiting).release()).toBe('released');
  });

  it('ends its session at once when it closes and holds nothing', async () => {
    const service = await zookeeper.openProxied();
    await works(service);
    await zookeeper.untilFree(zookeeper.key);
    expect(await zookeeper.hand.children('/nest-lock/s')).toHaveLength(1);
    await service.close();
    expect(await zookeeper.hand.children('/nest-lock/s')).toEqual([]);
    expect(await zookeeper.hand.children('/nest-lock/m')).toEqual([]);
  });
});

describeWith('zookeeper')('clients that all want one key in ZooKeeper', () => {
  const zookeeper = ownZookeeper();
  describeCrowd(
    () => zookeeper.open(zookeeper.server.url, PATIENT),
    () => zookeeper.key,
    { fair: true },
  );
});
