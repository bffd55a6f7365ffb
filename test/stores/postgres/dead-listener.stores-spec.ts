import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { startPostgresServer, type PostgresServer } from '#postgres-server';
import { TcpProxy } from '#tcp-proxy';
import { until } from '#until';
import { closeServices, openServiceOn } from '../../support/lock-services.js';
import { describeWith } from '../support/describe-with.js';

describeWith('postgres')('a connection for notifications that died without a word', () => {
  let server: PostgresServer;
  let proxy: TcpProxy;
  beforeAll(async () => {
    server = await startPostgresServer();
    proxy = await TcpProxy.before(server.port, { protocol: 'sql' });
  });
  afterAll(async () => {
    await closeServices();
    await proxy.close();
    await server.stop();
  });

  it('is replaced within a few rechecks of a waiter', async () => {
    const holder = openServiceOn(postgresStore(server.url));
    const lock = await holder.acquire('goods');
    const waiter = openServiceOn(postgresStore(server.url.replace(String(server.port), String(proxy.port))));
    await until(() => proxy.pushes.isOpen);
    await waiter.withLock('other goods', () => undefined);
    const dead = proxy.pushes;
    const waiting = waiter.acquire('goods', { waitMs: 30_000 });
    dead.vanish();
    await until(() => !dead.isOpen && proxy.pushes.isOpen, 10_000);
    await lock.release();
    await (await waiting).release();
    expect(dead.isOpen).toBe(false);
  }, 30_000);
});
