import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import { postgresStore, type PostgresStoreOptions } from 'nestjs-distributed-lock/postgres';
import pg from 'pg';
import { startPostgresServer, type PostgresServer, type PostgresServerOptions } from '#postgres-server';
import { TcpProxy } from '#tcp-proxy';
import { until } from '#until';
import { closeServices, openServiceOn } from '../../../support/lock-services.js';

type ServiceOptions = Parameters<typeof openServiceOn>[1];

/** A server of this file's own, with a plain client, and a proxy and a fresh key for each test. */
export class OwnPostgres {
  key = '';
  server!: PostgresServer;
  proxy!: TcpProxy;
  private client!: pg.Client;

  get url(): string {
    return this.server.url;
  }

  /** Through the proxy. */
  get proxied(): string {
    return `postgres://postgres@127.0.0.1:${this.proxy.port}/postgres`;
  }

  open(url = this.url, store: PostgresStoreOptions = {}, options: ServiceOptions = {}): LockService {
    return openServiceOn(postgresStore(url, store), options);
  }

  /** A service whose two connections stand, through the proxy. */
  async openProxied(store: PostgresStoreOptions = {}, options: ServiceOptions = {}): Promise<LockService> {
    const before = this.listening;
    const service = this.open(this.proxied, store, options);
    await service.withLock(`${this.key}:first`, () => undefined);
    if (store.notifications !== 'poll') await until(() => this.listening > before);
    await this.untilFree(`${this.key}:first`);
    return service;
  }

  /** A call may end before its release is executed. */
  async untilFree(key: string): Promise<void> {
    const free = `SELECT FROM nest_lock WHERE name = $1 AND state IS NULL`;
    await until(async () => (await this.run(free, [key])).length === 1);
  }

  private get listening(): number {
    return this.proxy.open.filter((link) => link.has('listen')).length;
  }

  async run<Row extends pg.QueryResultRow>(sql: string, values: unknown[] = []): Promise<readonly Row[]> {
    return (await this.client.query<Row>(sql, values)).rows;
  }

  async connect(): Promise<void> {
    this.client = new pg.Client(this.url);
    // Ends with its server.
    this.client.on('error', () => undefined);
    await this.client.connect();
  }

  async disconnect(): Promise<void> {
    await this.client.end().catch(() => undefined);
  }
}

export function ownPostgres(options: PostgresServerOptions = {}): OwnPostgres {
  const own = new OwnPostgres();
  beforeAll(async () => {
    own.server = await startPostgresServer(options);
    await own.connect();
  });
  beforeEach(async () => {
    own.key = `k:${randomUUID()}`;
    own.proxy = await TcpProxy.before(own.server.port, { protocol: 'sql' });
  });
  afterEach(async () => {
    await closeServices();
    await own.proxy.close();
  });
  afterAll(async () => {
    await own.disconnect();
    await own.server.stop();
  });
  return own;
}
