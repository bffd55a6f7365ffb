import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { LockConfigurationError, LockKeyError, type LockServiceOptions } from 'nestjs-distributed-lock';
import { etcdStore, type EtcdStoreOptions } from 'nestjs-distributed-lock/etcd';
import { makeCertificates } from '#certificates';
import { startEtcdServer } from '#etcd-server';
import { until } from '#until';
import { eventsOf } from '../../support/events.js';
import { closeServices, failureOf, openServiceOn } from '../../support/lock-services.js';
import { describeWith } from '../support/describe-with.js';
import { ownEtcd } from './support/own-etcd.js';
import { ownServer } from '../../support/own-server.js';

const SECRET = 'correct-horse';

describe('etcdStore refuses', () => {
  const store = etcdStore as (endpoints?: unknown, options?: unknown) => ReturnType<typeof etcdStore>;

  it.each<[string, unknown, RegExp]>([
    ['nothing', undefined, /it was given undefined/],
    ['an empty text', '', /it was given an empty string/],
    ['an empty list', [], /it was given an empty list/],
    ['a number among the endpoints', ['a:1', 2379], /it was given a number/],
    ['the URL of Redis', 'redis://db', /scheme of an endpoint is redis:/],
    ['a user in the URL', `http://u:${SECRET}@db:2379`, /Give them as auth/],
    ['a path in the URL', 'http://db:2379/x', /neither a URL as http:\/\/host:2379 nor host:port/],
    ['a port that is none', 'db:99999', /neither a URL/],
    ['several endpoints in one text', 'a:1,b:2', /neither a URL/],
    ['endpoints of which some are https', ['https://a', 'http://b'], /some of the endpoints are https:/],
    ['options without endpoints', { root: 'x' }, /it was given undefined/],
    ['a misspelt option', { endpoint: 'a:1' }, /no option "endpoint"; did you mean endpoints\?/],
  ])('%s', (_, endpoints, message) => {
    expect(() => store(endpoints)).toThrow(LockConfigurationError);
    expect(() => store(endpoints)).toThrow(message);
    expect(() => store(endpoints)).not.toThrow(SECRET);
  });

  it.each<[string, object, RegExp]>([
    ['an unknown option', { rot: 'x' }, /did you mean root\?/],
    ['endpoints twice', { endpoints: 'b:1' }, /given endpoints twice/],
    ['an empty root', { root: '' }, /root must be a text of 1 to 255 bytes.*it is ""/],
    ['a root that is no text', { root: 1 }, /it is a number/],
    ['a user without a password', { auth: { user: 'u' } }, /auth\.password must be a text; it is undefined/],
    ['an unknown part of auth', { auth: { name: 'u', password: SECRET } }, /no option "name"/],
    ['TLS for endpoints without it', { tls: {} }, /Write them as https:/],
  ])('%s', (_, options, message) => {
    expect(() => store('a:1', options)).toThrow(message);
    expect(() => store('a:1', options)).not.toThrow(SECRET);
  });

  it.each<[string, object, RegExp]>([
    ['a certificate without its key', { cert: '-----BEGIN X' }, /one of cert and key without the other/],
    [
      'the path of a file',
      { ca: '/etc/ssl/ca.pem' },
      /tls\.ca must be the content .* it is a string without/,
    ],
    ['an unknown part of tls', { caFile: 'x' }, /no option "caFile"/],
  ])('%s', (_, tls, message) => {
    expect(() => store('https://a', { tls })).toThrow(message);
  });

  it('a command that may take longer than a third of the lease, with both numbers', () => {
    const open = (options: Omit<Partial<LockServiceOptions>, 'store'>) =>
      openServiceOn(etcdStore('127.0.0.1:1', { commandTimeoutMs: 900 }), options);
    expect(() => open({ watchdogTimeoutMs: 2000 })).toThrow(
      /\(2000\) .* three times commandTimeoutMs \(900\)/,
    );
  });
});

describeWith('etcd')('a service on etcd', () => {
  const etcd = ownEtcd();

  it('takes the same endpoints as a text, in a list and in options', async () => {
    const { host } = new URL(etcd.url);
    for (const service of [
      etcd.open(host),
      openServiceOn(etcdStore([host, etcd.url], { root: etcd.root })),
      openServiceOn(etcdStore({ endpoints: `${etcd.url}/`, root: etcd.root })),
    ]) {
      expect(await service.withLock(etcd.key, { waitMs: 5000 }, () => 'done')).toBe('done');
    }
  });

  it('keeps the locks of two roots apart', async () => {
    const [one, other] = ['one/', 'other/'].map((end) => etcd.open(etcd.url, { root: etcd.root + end }));
    await one!.acquire(etcd.key);
    expect(await other!.tryAcquire(etcd.key)).not.toBeNull();
    expect(await one!.tryAcquire(etcd.key)).toBeNull();
  });

  it('tells all names apart that etcd can hold, with their queues', async () => {
    const [holder, next] = [await etcd.openReady(), await etcd.openReady()];
    const names = [
      'a',
      'a\0',
      'a\0b',
      'a\0\0',
      '\0',
      '/',
      'a/',
      'a/b',
      '🔒',
      'ä',
      'a\u0308',
      '\n',
      'ü'.repeat(1024),
    ];
    const keys = [...names, '漢'.repeat(1024)];
    const locks = await Promise.all(keys.map((key) => holder.acquire(key)));
    const waiting = keys.map((key) => next.acquire(key, { waitMs: 20_000 }));
    await until(async () => {
      const snapshots = await Promise.all(keys.map((key) => holder.inspect(key)));
      return snapshots.every((snapshot) => snapshot?.pending.length === 1);
    });
    await Promise.all(locks.map((lock) => lock.release()));
    const released = await Promise.all(waiting.map(async (lock) => (await lock).release()));
    expect(released.every((reply) => reply === 'released')).toBe(true);
  });

  it('refuses keys that are too long or that UTF-8 cannot tell apart', async () => {
    const service = etcd.open(etcd.url, {}, { keyPrefix: '漢'.repeat(400) });
    for (const key of ['half \ud800', 'half \udc00', '漢'.repeat(1000)]) {
      const failure = await failureOf(service.tryAcquire(key));
      expect(failure).toBeInstanceOf(LockKeyError);
      expect(String(failure)).toMatch(
        /half a surrogate pair|4200 bytes with its prefix; etcdStore takes at most 4096/,
      );
    }
  });
});

describeWith('etcd')('a service on an etcd with users', () => {
  const etcd = ownEtcd({ settings: { 'auth-token-ttl': 2 } });
  const auth = { user: 'app', password: SECRET };
  beforeAll(async () => {
    await etcd.gateway.addUser('app', SECRET, ['']);
    await etcd.gateway.addUser('other', SECRET, ['elsewhere/']);
    await etcd.gateway.enableUsers(SECRET);
  });

  it('asks again for a token when its own is not valid any more', async () => {
    const service = etcd.open(etcd.url, { auth });
    const lock = await service.acquire(etcd.key);
    // The keep-alives of a session ask for no token. So nothing keeps it valid.
    await new Promise((resolve) => setTimeout(resolve, 4000));
    await service.withLock(`${etcd.key}:other`, { waitMs: 0 }, () => undefined);
    expect(lock.signal.aborted).toBe(false);
    expect(await lock.release()).toBe('released');
  });

  it.each<[string, EtcdStoreOptions, RegExp]>([
    ['no user', {}, /etcd refused: it asks for a user\. Give etcdStore the option auth/],
    ['a wrong password', { auth: { user: 'app', password: 'wrong' } }, /user or password is wrong/],
    [
      'a user without rights',
      { auth: { user: 'other', password: SECRET } },
      /grant-permission <role> readwrite/,
    ],
  ])('says so for %s, and tells no password', async (_, options, message) => {
    const service = etcd.open(etcd.url, options);
    const events = eventsOf(service);
    const failure = await failureOf(service.acquire(etcd.key, { waitMs: 0 }));
    expect(failure).toMatchObject({ reason: 'refused', message: expect.stringMatching(message) });
    const all = inspect([failure, events, service], { depth: Infinity, getters: true });
    expect(all).not.toContain(SECRET);
    expect(JSON.stringify([failure, events])).not.toContain(SECRET);
  });
});

describeWith('etcd')('a service on an etcd with TLS', () => {
  const { ca, server: identity, client } = makeCertificates();
  const server = ownServer(() => startEtcdServer({ tls: { ...identity, clientCa: ca } }));
  afterAll(closeServices);

  it('shows its own certificate, and checks that of the server', async () => {
    const service = openServiceOn(etcdStore(server.url, { tls: { ca, ...client } }));
    await service.withLock('a', () => undefined);
    const named = openServiceOn(
      etcdStore(server.url, { tls: { ca: Buffer.from(ca), ...client, servername: 'localhost' } }),
    );
    expect(await named.withLock('a', { waitMs: 5000 }, () => 'done')).toBe('done');
  });

  it.each<[string, () => EtcdStoreOptions, RegExp]>([
    ['an authority that it does not know', () => ({ tls: { ...client } }), /certificate/],
    ['no certificate of its own', () => ({ tls: { ca } }), /could not be reached/],
    ['another name of the server', () => ({ tls: { ca, ...client, servername: 'other' } }), /altnames/],
  ])('says why it does not connect with %s', async (_, options, message) => {
    // A busy machine takes long for a handshake, and the message has the last error before the time of a command is over.
    const service = openServiceOn(etcdStore(server.url, { commandTimeoutMs: 3000, ...options() }));
    const failure = await failureOf(service.acquire('a', { waitMs: 0 }));
    expect(failure).toMatchObject({ code: 'LOCK_STORE', message: expect.stringMatching(message) });
  });
});
