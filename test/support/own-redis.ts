import { afterAll, afterEach, beforeAll, beforeEach } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import { startRedisServer, type RedisServer, type RedisServerOptions } from '#redis-server';
import { TcpProxy } from '#tcp-proxy';
import { closeServices, openService, type ServiceOptions } from './lock-services.js';
import type { RedisTarget } from 'nestjs-distributed-lock/redis';
import { targetOf, type Library } from './redis-library.js';
import { RedisEyes } from './redis-eyes.js';

const START_MS = 60_000;

/** A Redis server that no other test file uses, with what the tests of this file need around it. */
export interface OwnRedis {
  readonly server: RedisServer;
  readonly url: string;
  /** A plain client that reads what the server holds, and a monitor of its commands. */
  readonly eyes: RedisEyes;
  /** A new one for each test, between a service opened on `proxy.url` and the server. */
  readonly proxy: TcpProxy;
  /** A key that no other test uses. */
  readonly key: string;
  /** What `redisStore` is given for the server, or for a proxy before it. */
  readonly targetOf: (url: string) => RedisTarget;
  /** A service of this test, as another process would have it. */
  readonly open: (options?: ServiceOptions) => LockService;
}

export interface OwnRedisOptions extends RedisServerOptions {
  /** How long one server is kept: for all tests of the block by default. */
  readonly per?: 'block' | 'test';
  /** By which its services connect; default ioredis. */
  readonly library?: Library;
}

/**
 * Starts the server before the tests of the surrounding block and stops it after them. After each test the services that
 * the test opened are closed, and so is its proxy; a paused server is resumed before that.
 *
 * @param name how the keys of these tests begin
 */
export function ownRedis(name: string, options: OwnRedisOptions = {}): OwnRedis {
  const { library = 'ioredis' } = options;
  let server: RedisServer | undefined;
  let eyes: RedisEyes | undefined;
  let proxy: TcpProxy | undefined;
  let tests = 0;
  const start = async (): Promise<void> => {
    server = await startRedisServer(options);
  };
  const stop = async (): Promise<void> => {
    eyes?.close();
    eyes = undefined;
    await server?.stop();
  };
  const [first, last] = options.per === 'test' ? [beforeEach, afterEach] : [beforeAll, afterAll];

  first(start, START_MS);
  beforeEach(async () => {
    tests += 1;
    proxy = await TcpProxy.before(started(server).port);
  });
  afterEach(async () => {
    await server?.resume();
    await closeServices();
    await proxy?.close();
  });
  last(stop);

  return {
    get server() {
      return started(server);
    },
    get url() {
      return started(server).url;
    },
    get eyes() {
      return (eyes ??= new RedisEyes(started(server).url));
    },
    get proxy() {
      return started(proxy);
    },
    get key() {
      return `${name}:${tests}`;
    },
    targetOf: (url) => targetOf(library, url),
    open: (serviceOptions) => openService(targetOf(library, started(server).url), serviceOptions),
  };
}

function started<T>(it: T | undefined): T {
  if (it === undefined)
    throw new Error('The server of ownRedis is started by a hook: read it inside a test.');
  return it;
}
