import { describe, expect, it } from '@jest/globals';
import { readConfig } from './config.js';

describe('readConfig', () => {
  it('needs nothing', () => {
    expect(readConfig({})).toEqual({
      host: '127.0.0.1',
      port: 3000,
      store: 'memory',
      redisUrl: undefined,
      databaseUrl: undefined,
      mysqlUrl: undefined,
      etcdUrl: undefined,
      zookeeperHosts: undefined,
      watchdogTimeoutMs: undefined,
      waitMs: undefined,
      locked: true,
    });
  });

  it('reads every variable', () => {
    const env = {
      HOST: '127.0.0.2',
      PORT: '8080',
      STORE: 'postgres',
      MYSQL_URL: 'mysql://root@db/shop',
      ETCD_URL: 'https://etcd:2379',
      ZOOKEEPER_HOSTS: 'zk-1:2181,zk-2:2181/shop',
      DATABASE_URL: 'postgres://me@db/shop',
      REDIS_URL: 'redis://cache:6379',
      WATCHDOG_MS: '3000',
      WAIT_MS: '0',
      LOCK: 'off',
    };
    expect(readConfig(env)).toEqual({
      host: '127.0.0.2',
      port: 8080,
      store: 'postgres',
      mysqlUrl: 'mysql://root@db/shop',
      etcdUrl: 'https://etcd:2379',
      zookeeperHosts: 'zk-1:2181,zk-2:2181/shop',
      databaseUrl: 'postgres://me@db/shop',
      redisUrl: 'redis://cache:6379',
      watchdogTimeoutMs: 3000,
      waitMs: 0,
      locked: false,
    });
  });

  it('has its locks in a Redis that the environment names, unless it names a store', () => {
    const REDIS_URL = 'redis://cache:6379';
    expect(readConfig({ REDIS_URL }).store).toBe('redis');
    expect(readConfig({ REDIS_URL, STORE: 'memory' }).store).toBe('memory');
  });

  it('names all that makes no sense at once', () => {
    const env = {
      PORT: '70000',
      REDIS_URL: 'cache:6379',
      DATABASE_URL: 'mysql://db',
      ETCD_URL: 'etcd:2379',
      ZOOKEEPER_HOSTS: 'zookeeper://zk:2181',
      STORE: 'consul',
      LOCK: 'no',
    };
    expect(() => readConfig(env)).toThrow(
      /REDIS_URL[^]*PORT.*70000[^]*STORE must be memory, redis, postgres, mysql, etcd or zookeeper; it is "consul"[^]*DATABASE_URL.*mysql[^]*ETCD_URL[^]*ZOOKEEPER_HOSTS[^]*LOCK must be on or off/,
    );
  });
});
