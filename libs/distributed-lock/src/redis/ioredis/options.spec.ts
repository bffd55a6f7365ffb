import { describe, expect, it } from '@jest/globals';
import { Cluster, Redis } from 'ioredis';
import { createCluster } from 'redis';
import { LockConfigurationError } from '../../port/lock.errors.js';
import { followedOrRefused } from '../../../../../test/support/followed-or-refused.js';
import { checkRedisTarget } from '../target.js';
import { optionsOfUrl, REDIS_PARAMETERS } from './options.js';

const HARMLESS_OF_CLIENT = new Redis({ host: 'h', lazyConnect: true }).options;

describe('redisStore', () => {
  followedOrRefused({
    parameters: REDIS_PARAMETERS,
    // A value of `db` stands in the path of the other URLs.
    values: { db: '3', family: '6', protocol: '2', enableReadyCheck: 'false', noDelay: '0', tls: 'true' },
    optionsOf: (query) => optionsOfUrl(`redis://h:1?${query}`),
    seen: { tls: {} },
  });

  it.each<[string, object]>([
    [
      'redis://u:p%40ss@h:6380/2?family=6',
      { host: 'h', port: 6380, username: 'u', password: 'p@ss', db: 2, family: 6 },
    ],
    ['rediss://h', { host: 'h', tls: {} }],
    ['REDISS://h', { host: 'h', tls: {} }],
    ['rediss://h?tls=true', { host: 'h', tls: {} }],
    ['redis://h?tls=1', { host: 'h', tls: {} }],
    ['redis://[::1]:7', { host: '::1', port: 7 }],
    ['redis://:p@h', { host: 'h', password: 'p' }],
    ['//h/4', { host: 'h', db: 4 }],
    ['h:1', { host: 'h', port: 1 }],
    ['h?db=2', { host: 'h', db: 2 }],
    ['6380', { port: 6380 }],
    ['/run/redis.sock?db=2', { path: '/run/redis.sock', db: 2 }],
  ])('reads %s', (url, options) => {
    expect(optionsOfUrl(url)).toEqual(options);
  });

  it.each([
    ['a database that is no number', 'redis://h/shop', 'not the number of a database'],
    ['a database with more behind it', 'redis://h/2/x', 'not the number of a database'],
    ['a path without a scheme', 'h/2', 'not the number of a database'],
    ['two databases', 'redis://h/2?db=3', 'two values for db'],
    ['two passwords', 'redis://:hunter2@h?password=x', 'two values for password'],
    ['TLS and none', 'rediss://h?tls=false', 'Write redis: for no TLS'],
    ['a # that cuts a password', 'redis://:a#hunter2', 'no URL with a host'],
    ['a # at its end', 'redis://h#hunter2', 'must have as %23'],
    ['a % in its password', 'redis://:hunter2%zz@h', 'Write a % as %25'],
    ['a % that is no text', 'redis://:hunter2%ff@h', 'Write a % as %25'],
    ['Sentinels', 'redis+sentinel://h/m', 'give options: { sentinels, name }'],
  ])('refuses a URL with %s, and tells no password', (_, url, message) => {
    const make = () => checkRedisTarget(url);
    expect(make).toThrow(LockConfigurationError);
    expect(make).toThrow(message);
    expect(make).not.toThrow('hunter2');
  });

  it.each<[string, unknown]>([
    ['retryStrategy', () => null],
    ['reconnectOnError', () => true],
    ['maxRetriesPerRequest', 3],
    ['connectTimeout', 5],
    ['commandTimeout', 5],
    ['keepAlive', 5],
    ['enableAutoPipelining', true],
    ['stringNumbers', true],
    ['readOnly', true],
    ['monitor', true],
    ['role', 'slave'],
    ['ssl', true],
    ['db', Number.NaN],
  ])('refuses the option %s, which would do nothing or make locks unsafe', (name, value) => {
    expect(() => checkRedisTarget({ host: 'h', [name]: value })).toThrow(`the option "${name}" of ioredis. `);
  });

  it('takes options that ask for nothing, and all those of a client that exists', () => {
    for (const [name, value] of Object.entries(HARMLESS_OF_CLIENT)) {
      expect(() => checkRedisTarget({ host: 'h', [name]: value })).not.toThrow();
    }
    const ofJobs = { host: 'h', maxRetriesPerRequest: null, enableReadyCheck: false, lazyConnect: false };
    expect(() => checkRedisTarget({ ...HARMLESS_OF_CLIENT })).not.toThrow();
    expect(() => checkRedisTarget(ofJobs)).not.toThrow();
  });

  it.each<[string, unknown]>([
    ['Sentinels', { sentinels: [{ host: 'h', port: 1 }], name: 'm', tls: {} }],
    ['a cluster by the URL of a node', new Cluster(['rediss://h'], { lazyConnect: true })],
    [
      'a cluster by the options of a node',
      new Cluster([{ host: 'h', tls: {} } as object], { lazyConnect: true }),
    ],
    ['a cluster of node-redis', createCluster({ rootNodes: [{ url: 'rediss://h' }] })],
  ])('refuses %s where TLS is asked for and the driver would connect in plain text', (_, target) => {
    expect(() => checkRedisTarget(target)).toThrow(/in plain text/);
  });

  it('takes Sentinels and clusters that have TLS for all connections', () => {
    const tls = {};
    const targets = [
      { sentinels: [{ host: 'h' }], name: 'm', tls, enableTLSForSentinelMode: true },
      new Cluster(['rediss://h'], { lazyConnect: true, redisOptions: { tls } }),
      createCluster({ rootNodes: [{ url: 'rediss://h' }], defaults: { socket: { tls: true } } }),
    ];
    for (const target of targets) expect(() => checkRedisTarget(target)).not.toThrow();
  });
});
