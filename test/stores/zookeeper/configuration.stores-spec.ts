import { randomUUID } from 'node:crypto';
import { inspect } from 'node:util';
import { afterEach, describe, expect, it } from '@jest/globals';
import { LockConfigurationError, LockKeyError } from 'nestjs-distributed-lock';
import { zookeeperStore, type ZookeeperStoreOptions } from 'nestjs-distributed-lock/zookeeper';
import { makeCertificates } from '#certificates';
import { until } from '#until';
import { startZookeeperServer } from '#zookeeper-server';
import { closeServices, failureOf, openServiceOn } from '../../support/lock-services.js';
import { describeWith } from '../support/describe-with.js';
import { ownZookeeper } from './support/own-zookeeper.js';
import { ownServer } from '../../support/own-server.js';

describe('the options of zookeeperStore', () => {
  it('are refused where they would do nothing, without values that may be secret', () => {
    const wrong: readonly [object, RegExp][] = [
      [{ rott: '/x' }, /zookeeperStore has no option "rott"; did you mean root\?/],
      [{ root: 'locks' }, /root must be a path of znodes, as \/nest-lock, .*; it is "locks"/],
      [{ auth: 'secret' }, /auth must be 'user:password', .*; it was given another text/],
      [{ auth: 7 }, /auth must be 'user:password', .*; it was given a number/],
      [{ tls: true }, /tls must be options of tls\.connect; it is a boolean/],
    ];
    for (const [options, message] of wrong) {
      const store = () => zookeeperStore('zk1', options as ZookeeperStoreOptions);
      expect(store).toThrow(LockConfigurationError);
      expect(store).toThrow(message);
      expect(store).not.toThrow(/secret/);
    }
  });

  it('are refused against the watchdog where one slow answer would lose the lock', () => {
    const open = (commandTimeoutMs: number) =>
      openServiceOn(zookeeperStore('127.0.0.1:1', { commandTimeoutMs }), { watchdogTimeoutMs: 3000 });
    expect(() => open(1001)).toThrow(
      /watchdogTimeoutMs \(3000\) must be at least three times commandTimeoutMs/,
    );
    expect(() => open(0)).toThrow(/commandTimeoutMs must be a whole number of ms/);
  });
});

describeWith('zookeeper')('a service on ZooKeeper', () => {
  const zookeeper = ownZookeeper({ settings: { maxSessionTimeout: 10_000 } });

  it('is refused a session that is shorter than its locks need, with both numbers', async () => {
    const service = zookeeper.open(zookeeper.server.url, {}, { watchdogTimeoutMs: 30_000 });
    const failure = await failureOf(service.acquire(zookeeper.key));
    expect(failure).toBeInstanceOf(LockConfigurationError);
    expect(String(failure)).toMatch(
      /watchdogTimeoutMs is 30000, and the ZooKeeper servers grant sessions of at most 10000 ms.*Lower watchdogTimeoutMs to 10000, or raise maxSessionTimeout .*tickTime/,
    );
    expect(await failureOf(service.acquire(zookeeper.key))).toBeInstanceOf(LockConfigurationError);
  });

  it('reports an outage while its sessions are refused, with the reason', async () => {
    const service = zookeeper.open(zookeeper.server.url, {}, { watchdogTimeoutMs: 30_000 });
    const states: unknown[] = [];
    service.events$.subscribe((event) => void (event.type === 'store' && states.push(event.state)));
    service.open();
    await until(() => states.length > 0);
    expect(states[0]).toMatchObject({ isUp: false, error: { code: 'LOCK_STORE', reason: 'refused' } });
    expect(String((states[0] as { error: Error }).error)).toMatch(/grant sessions of at most 10000 ms/);
  });

  it('locks under the root and the path that it is given, which it makes', async () => {
    const options = { watchdogTimeoutMs: 10_000 };
    const one = zookeeper.open(`${zookeeper.server.url}/app/a`, { root: '/deep/locks' }, options);
    const same = zookeeper.open(zookeeper.server.url, { root: '/app/a/deep/locks' }, options);
    const other = zookeeper.open(zookeeper.server.url, { root: '/other' }, options);
    await one.acquire(zookeeper.key);
    expect(await same.tryAcquire(zookeeper.key)).toBeNull();
    expect(await other.tryAcquire(zookeeper.key)).not.toBeNull();
    expect(await zookeeper.hand.children('/app/a/deep/locks')).toEqual(
      expect.arrayContaining(['l', 'm', 'q', 's']),
    );
  });

  it('refuses keys that make no name of a znode, and takes all others', async () => {
    const service = zookeeper.open(zookeeper.server.url, {}, { watchdogTimeoutMs: 10_000 });
    for (const key of ['half \ud800', 'half \udc00', 'ü'.repeat(1001)]) {
      expect(await failureOf(service.tryAcquire(key))).toBeInstanceOf(LockKeyError);
    }
    const odd = [
      '.',
      '..',
      '/',
      '//',
      'a/b',
      '%',
      '%2f',
      ' ',
      '\n',
      '\0',
      '\x7f',
      'ä',
      'a\u0308',
      '🔒',
      '\ue000',
      '\ufffe',
      '!',
      'zookeeper',
      'ü'.repeat(1000),
    ];
    const locks = await Promise.all(odd.map((key) => service.tryAcquire(key)));
    expect(locks.every((lock) => lock !== null)).toBe(true);
    const waiting = Promise.all(
      odd.map((key) =>
        zookeeper
          .open(zookeeper.server.url, {}, { watchdogTimeoutMs: 10_000 })
          .acquire(key, { waitMs: 10_000 }),
      ),
    );
    await until(async () =>
      (await Promise.all(odd.map((key) => service.inspect(key)))).every((seen) => seen?.pending.length === 1),
    );
    await Promise.all(locks.map(async (lock) => lock?.release()));
    expect(await waiting).toHaveLength(odd.length);
  });
});

describeWith('zookeeper')('a service on ZooKeeper with a user', () => {
  const auth = 'shop:pass:word';
  const root = `/auth-${randomUUID()}`;
  const zookeeper = ownZookeeper();
  const open = (given?: string) =>
    zookeeper.open(zookeeper.server.url, { root, ...(given && { auth: given }) });

  it('lets nobody read or change its locks without the password, and says so', async () => {
    const service = open(auth);
    const lock = await service.acquire(zookeeper.key);
    expect(await zookeeper.hand.get(`${root}/l/${zookeeper.key}`)).toBeUndefined();
    for (const other of [open(), open('shop:wrong')]) {
      const failure = await failureOf(other.tryAcquire(zookeeper.key));
      expect(failure).toMatchObject({ code: 'LOCK_STORE', reason: 'refused' });
      expect(String(failure)).toMatch(/no right to the znode: check the option auth/);
      expect(String(failure)).not.toMatch(/wrong|pass/);
    }
    expect(await open(auth).tryAcquire(zookeeper.key)).toBeNull();
    expect(await lock.release()).toBe('released');
  });

  it('is given the lock by a process that was started before there was a user', async () => {
    const rollOut = `${root}-later`;
    const before = zookeeper.open(zookeeper.server.url, { root: rollOut });
    const lock = await before.acquire(zookeeper.key);
    const service = zookeeper.open(zookeeper.server.url, { root: rollOut, auth });
    const waiting = service.acquire(zookeeper.key, { waitMs: 20_000 });
    await until(async () => (await before.inspect(zookeeper.key))?.pending.length === 1);
    expect(await lock.release()).toBe('released');
    const next = await waiting;
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    await next.release();
  });

  it('keeps its rights after its connection broke', async () => {
    const proxied = zookeeper.open(zookeeper.proxied, { root, auth });
    const lock = await proxied.acquire(zookeeper.key);
    zookeeper.link.reset();
    expect(await lock.release()).toBe('released');
    await proxied.withLock(zookeeper.key, () => undefined);
  });
});

describeWith('zookeeper')('a service on a secure port of ZooKeeper', () => {
  const certificates = makeCertificates();
  const { key, cert } = certificates.server;
  const server = ownServer(() => startZookeeperServer({ tls: { key, cert, clientCa: certificates.ca } }));
  afterEach(closeServices);

  it('locks with a certificate that the server trusts', async () => {
    const { ca, client } = certificates;
    const tls = { ca, key: client.key, cert: client.cert };
    const service = openServiceOn(zookeeperStore(server.url, { tls }));
    const lock = await service.acquire('secure');
    expect(await openServiceOn(zookeeperStore(server.url, { tls })).tryAcquire('secure')).toBeNull();
    expect(await lock.release()).toBe('released');
  });

  it('says why there is no connection: an authority that is not trusted, no TLS at all', async () => {
    const { client } = certificates;
    const untrusted = { tls: { key: client.key, cert: client.cert } };
    expect(
      await failureOf(openServiceOn(zookeeperStore(server.url, untrusted)).tryAcquire('k')),
    ).toMatchObject({
      reason: 'unreachable',
      message: expect.stringMatching(/last error: .*(certificate|self-signed)/),
    });
    expect(await failureOf(openServiceOn(zookeeperStore(server.url)).tryAcquire('k'))).toMatchObject({
      reason: 'unreachable',
    });
  });
});

describe('the password of a service on ZooKeeper', () => {
  it('is not in what its service, or an error of it, prints', async () => {
    const service = openServiceOn(zookeeperStore('127.0.0.1:1', { auth: 'shop:hunter2' }));
    const failure = await failureOf(service.tryAcquire('key'));
    for (const printed of [service, failure]) {
      expect(inspect(printed, { depth: 20 })).not.toMatch(/hunter2/);
      expect(JSON.stringify(printed)).not.toMatch(/hunter2/);
    }
    await service.close();
  });
});
