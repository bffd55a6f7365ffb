import 'reflect-metadata';
import { createServer as createHttpServer, type Server } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { startEtcdServer } from '#etcd-server';
import { startPostgresServer } from '#postgres-server';
import { startZookeeperServer } from '#zookeeper-server';
import { checkEtcd, checkZookeeper } from '../../apps/seckill/src/preflight/check-session-store.js';
import { describeWith } from '../stores/support/describe-with.js';
import { ownServer } from '../support/own-server.js';
import { LIMIT_MS, runProgram } from './support/run-program.js';
import { expectAllSold, expectKept, SMALL } from './support/small-sale.js';

/** Of a session that was prolonged every sixth of its length, once too late. */
const LEAST_OF_SESSION = 2 / 3;

const STORES = [
  {
    store: 'etcd',
    product: 'etcd',
    start: startEtcdServer,
    variable: 'ETCD_URL',
    check: checkEtcd,
    addressOn: (port: number) => `http://127.0.0.1:${port}`,
  },
  {
    store: 'zookeeper',
    product: 'ZooKeeper',
    start: startZookeeperServer,
    variable: 'ZOOKEEPER_HOSTS',
    check: checkZookeeper,
    addressOn: (port: number) => `127.0.0.1:${port}`,
  },
] as const;

for (const { store, product, start, variable, check, addressOn } of STORES) {
  describeWith(store, ...(store === 'etcd' ? (['postgres'] as const) : []))(`with ${product}`, () => {
    let server: Awaited<ReturnType<typeof start>>;
    let web: Server;

    beforeAll(async () => {
      server = await start();
      web = createHttpServer((_, response) => response.end('hello')).listen(0, '127.0.0.1');
      await once(web, 'listening');
    }, LIMIT_MS);
    afterAll(async () => {
      web?.close();
      await server?.stop();
    });

    if (store === 'zookeeper') {
      it(
        'the demo sells all',
        async () => {
          const ended = await runProgram('demo', ['--store', store, ...SMALL]);
          expectAllSold(ended);
          expect(ended.stdout).toContain('data in an embedded Postgres, locks in');
        },
        2 * LIMIT_MS,
      );
    } else {
      // It needs half the CPU time of an embedded one.
      const goods = ownServer(startPostgresServer);
      it(
        'the demo kills the process that holds the lock, and another goes on when its session is over, not before',
        async () => {
          const args = ['--store', store, '--instances', '2', '--kill', ...SMALL];
          const ended = await runProgram('demo', args, { DATABASE_URL: goods.url });
          expectAllSold(ended);
          expectKept(ended, LEAST_OF_SESSION);
          expect(ended.stdout).toMatch(/its session of 3000 ms has\s+at most \d+ ms left/);
        },
        2 * LIMIT_MS,
      );
    }

    it('the check before the app starts finds nothing wrong with a server that can be used', async () => {
      await expect(check(server.url)).resolves.toBeUndefined();
    });

    it.each([
      ['where nobody listens', () => 1],
      ['where a web server answers', () => (web.address() as AddressInfo).port],
    ])('the check says why a server %s cannot be used, and what to do', async (_, port) => {
      const address = addressOn(port());
      const { message } = (await check(address).catch((reason: unknown) => reason)) as Error;
      expect(message).toContain(`${variable} names ${address}, but no ${product} can be used there: `);
      expect(message).toContain(`Start one there, correct ${variable}, or leave it out`);
    });
  });
}
