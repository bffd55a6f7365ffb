import { randomUUID } from 'node:crypto';
import { type EtcdServer, type EtcdServerOptions, startEtcdServer } from '#etcd-server';
import { TcpProxy } from '#tcp-proxy';
import { until } from '#until';
import { afterAll, afterEach, beforeAll, beforeEach } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import { etcdStore, type EtcdStoreOptions } from 'nestjs-distributed-lock/etcd';
import { systemChance, systemClock } from '../../../../libs/distributed-lock/src/common/clock.js';
import { EtcdBackend } from '../../../../libs/distributed-lock/src/etcd/backend.js';
import { targetOf } from '../../../../libs/distributed-lock/src/etcd/store.js';
import { SessionSweeper, SWEPT_AFTER_MS } from '../../../../libs/distributed-lock/src/session/register.js';
import { closeServices, openServiceOn } from '../../../support/lock-services.js';
import { EtcdGateway } from './etcd-gateway.js';

type ServiceOptions = Parameters<typeof openServiceOn>[1];

/** A server of this file's own, with its gateway, and a proxy and a fresh key for each test. */
export class OwnEtcd {
  key = '';
  /** Of the keys of this test. What a service leaves on purpose when it closes is not found by the next test. */
  root = '';
  server!: EtcdServer;
  proxy!: TcpProxy;
  gateway!: EtcdGateway;

  get url(): string {
    return this.server.url;
  }

  /** Through the proxy. */
  get proxied(): string {
    return `127.0.0.1:${this.proxy.port}`;
  }

  open(url = this.url, store: EtcdStoreOptions = {}, options: ServiceOptions = {}): LockService {
    return openServiceOn(etcdStore(url, { root: this.root, ...store }), options);
  }

  /** A service that has had a lock, so that its session and its watch stand. */
  async openReady(
    url = this.url,
    store: EtcdStoreOptions = {},
    options: ServiceOptions = {},
  ): Promise<LockService> {
    const service = this.open(url, store, options);
    await service.withLock(`${this.key}:first`, { waitMs: 10_000 }, () => undefined);
    await this.untilFree(`${this.key}:first`);
    return service;
  }

  /** The only one that is open. */
  async session(): Promise<{ readonly id: string; readonly lease: string; readonly epoch: string }> {
    const [presence, ...others] = await this.list('s/');
    if (!presence || others.length > 0)
      throw new Error(`There are ${others.length + (presence ? 1 : 0)} sessions.`);
    return { id: presence.key.slice(`${this.root}s/`.length), lease: presence.lease, epoch: presence.value };
  }

  /** The entries below the root whose keys begin so there. */
  list(prefix = ''): ReturnType<EtcdGateway['list']> {
    return this.gateway.list(this.root + prefix);
  }

  async document(key: string): Promise<string | undefined> {
    return (await this.list(`l/${key}`))[0]?.value;
  }

  /** A call may end before its release is executed. */
  async untilFree(key: string): Promise<void> {
    await until(async () => (await this.document(key)) === undefined);
  }

  /** Sweeps the root, and again when its documents are old, as a process with this session does, or with the first of all. */
  async sweep(sessionId: string | undefined): Promise<void> {
    const backend = new EtcdBackend(targetOf(this.url, {}), {
      clock: systemClock,
      chance: systemChance,
      clientId: 'one more',
      root: this.root,
      keyPrefix: '',
      commandTimeoutMs: 1000,
      watchdogTimeoutMs: 30_000,
    });
    backend.listen({ onMessage: () => undefined, onGap: () => undefined, onSessionEnd: () => undefined });
    try {
      // Its own one may be the first, and must not come between.
      await backend.session(undefined);
      const own = sessionId === 'first' ? await backend.firstSession() : sessionId;
      let aheadMs = 0;
      const clock = { ...systemClock, now: () => systemClock.now() + aheadMs };
      const sweeper = new SessionSweeper(backend, clock, () => own);
      await sweeper.sweep();
      aheadMs += SWEPT_AFTER_MS;
      await sweeper.sweep();
    } finally {
      await backend.close(false);
    }
  }

  /** Requests by name that the server is sent during `work`. */
  async countsDuring(work: () => Promise<unknown>): Promise<Readonly<Record<string, number>>> {
    const before = await this.gateway.counts();
    await work();
    const after = await this.gateway.counts();
    const counts = Object.entries(after).map(([name, count]) => [name, count - (before[name] ?? 0)] as const);
    return Object.fromEntries(counts.filter(([, count]) => count > 0));
  }
}

export function ownEtcd(options: EtcdServerOptions = {}): OwnEtcd {
  const own = new OwnEtcd();
  beforeAll(async () => {
    own.server = await startEtcdServer(options);
    own.gateway = new EtcdGateway(own.url);
  });
  beforeEach(async () => {
    own.key = `k:${randomUUID()}`;
    own.root = `${randomUUID()}/`;
    own.proxy = await TcpProxy.before(own.server.port, { protocol: 'any' });
  });
  afterEach(async () => {
    await closeServices();
    await own.proxy.close();
  });
  afterAll(() => own.server.stop());
  return own;
}
