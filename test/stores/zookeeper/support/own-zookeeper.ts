import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import { zookeeperStore, type ZookeeperStoreOptions } from 'nestjs-distributed-lock/zookeeper';
import { TcpProxy, type Link } from '#tcp-proxy';
import { until } from '#until';
import { startZookeeperServer, type ZookeeperServer, type ZookeeperServerOptions } from '#zookeeper-server';
import { closeServices, openServiceOn } from '../../../support/lock-services.js';
import { ZookeeperHand } from './zookeeper-hand.js';

type ServiceOptions = Parameters<typeof openServiceOn>[1];

/** A server of this file's own, with a plain client, and a proxy and a fresh key for each test. */
export class OwnZookeeper {
  key = '';
  server!: ZookeeperServer;
  proxy!: TcpProxy;
  hand!: ZookeeperHand;

  /** Through the proxy. */
  get proxied(): string {
    return `127.0.0.1:${this.proxy.port}`;
  }

  /** The newest connection through the proxy. */
  get link(): Link {
    return this.proxy.open.at(-1) as Link;
  }

  open(
    target = this.server.url,
    store: ZookeeperStoreOptions = {},
    options: ServiceOptions = {},
  ): LockService {
    return openServiceOn(zookeeperStore(target, store), options);
  }

  /** A service with a session, through the proxy. */
  async openProxied(store: ZookeeperStoreOptions = {}, options: ServiceOptions = {}): Promise<LockService> {
    const service = this.open(this.proxied, store, options);
    await service.withLock(`${this.key}:first`, () => undefined);
    await this.untilFree(`${this.key}:first`);
    return service;
  }

  /** A call may end before its release is executed. */
  async untilFree(key: string): Promise<void> {
    await until(async () => (await this.hand.textOf(key))?.endsWith(',[],[]]') ?? false);
  }
}

export function ownZookeeper(options: ZookeeperServerOptions = {}): OwnZookeeper {
  const own = new OwnZookeeper();
  beforeAll(async () => {
    own.server = await startZookeeperServer(options);
    own.hand = new ZookeeperHand(own.server.port);
  });
  beforeEach(async () => {
    own.key = `k:${randomUUID()}`;
    own.proxy = await TcpProxy.before(own.server.port, { protocol: 'any', keepsCommands: false });
  });
  afterEach(async () => {
    await closeServices();
    await own.proxy.close();
  });
  afterAll(async () => {
    await own.hand.close();
    await own.server.stop();
  });
  return own;
}
