import { createServer as createHttpServer } from 'node:http';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { LockService, type LockStoreFactory } from 'nestjs-distributed-lock';
import { etcdStore } from 'nestjs-distributed-lock/etcd';
import { mysqlStore } from 'nestjs-distributed-lock/mysql';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { zookeeperStore } from 'nestjs-distributed-lock/zookeeper';
import { createClient } from 'redis';
import { makeCertificates } from '#certificates';
import { startEtcdServer } from '#etcd-server';
import { startMariadbServer } from '#mariadb-server';
import { startPostgresServer } from '#postgres-server';
import { startRedisServer } from '#redis-server';
import { startZookeeperServer } from '#zookeeper-server';
import { describeWith } from './support/describe-with.js';

const SECRET = 'sesame';
/** For servers that may say nothing at all. */
const TIME = { commandTimeoutMs: 2000 };
/** For servers whose answer the message must name: a busy machine may take long for it. */
const PATIENT_TIME = { commandTimeoutMs: 8000 };
const { server: certificate } = makeCertificates();

interface Running {
  readonly port: number;
  stop(): unknown;
}

/** Stops when every client has left, which a store does that is closed. */
async function listening(server: Server): Promise<Running> {
  server.on('connection', (socket) => socket.on('error', () => undefined));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    stop: () => new Promise((resolve) => server.close(resolve)),
  };
}

/** Servers that may stand at a wrong port, with the package that some of them need. */
const SERVERS = {
  'an HTTP server': { start: () => listening(createHttpServer()) },
  'a port that takes connections and says nothing': {
    start: () => listening(createServer((socket) => socket.resume())),
  },
  'a port that resets what it does not understand': {
    start: () => listening(createServer((socket) => socket.once('data', () => socket.resetAndDestroy()))),
  },
  'a port that expects TLS': {
    start: () => listening(createTlsServer(certificate, (socket) => socket.resume())),
  },
  Redis: { start: () => startRedisServer() },
  PostgreSQL: { needs: 'postgres', start: () => startPostgresServer() },
  MariaDB: { needs: 'mariadb', start: () => startMariadbServer() },
  etcd: { needs: 'etcd', start: () => startEtcdServer() },
  'etcd with TLS': { needs: 'etcd', start: () => startEtcdServer({ tls: certificate }) },
  ZooKeeper: { needs: 'zookeeper', start: () => startZookeeperServer() },
  'ZooKeeper with TLS': { needs: 'zookeeper', start: () => startZookeeperServer({ tls: certificate }) },
} as const;
type ServerKind = keyof typeof SERVERS;

interface Store {
  /** Its back end, as messages call it. */
  readonly product: string;
  readonly at: (place: string, time: { readonly commandTimeoutMs: number }) => LockStoreFactory;
  /** The servers that are right for it. */
  readonly right: readonly ServerKind[];
}

const STORES: Readonly<Record<string, Store>> = {
  redisStore: {
    product: 'Redis',
    at: (place, time) => redisStore(`redis://user:${SECRET}@${place}`, time),
    right: ['Redis'],
  },
  'redisStore with TLS': {
    product: 'Redis',
    at: (place, time) => redisStore(`rediss://user:${SECRET}@${place}`, time),
    right: [],
  },
  'redisStore of node-redis': {
    product: 'Redis',
    at: (place, time) => redisStore(createClient({ url: `redis://user:${SECRET}@${place}` }), time),
    right: ['Redis'],
  },
  postgresStore: {
    product: 'PostgreSQL',
    at: (place, time) => postgresStore(`postgres://user:${SECRET}@${place}/shop`, time),
    right: ['PostgreSQL'],
  },
  'postgresStore with TLS': {
    product: 'PostgreSQL',
    at: (place, time) => postgresStore(`postgres://user:${SECRET}@${place}/shop?sslmode=verify-full`, time),
    right: [],
  },
  mysqlStore: {
    product: 'MySQL',
    at: (place, time) => mysqlStore(`mysql://user:${SECRET}@${place}/shop`, time),
    right: ['MariaDB'],
  },
  etcdStore: {
    product: 'etcd',
    at: (place, time) => etcdStore(`http://${place}`, { auth: { user: 'user', password: SECRET }, ...time }),
    right: ['etcd'],
  },
  'etcdStore with TLS': {
    product: 'etcd',
    at: (place, time) => etcdStore(`https://${place}`, { auth: { user: 'user', password: SECRET }, ...time }),
    right: ['etcd with TLS'],
  },
  zookeeperStore: {
    product: 'ZooKeeper',
    at: (place, time) => zookeeperStore(place, { auth: `user:${SECRET}`, ...time }),
    right: ['ZooKeeper'],
  },
  'zookeeperStore with TLS': {
    product: 'ZooKeeper',
    at: (place, time) =>
      zookeeperStore(place, { auth: `user:${SECRET}`, tls: { rejectUnauthorized: false }, ...time }),
    right: ['ZooKeeper with TLS'],
  },
};

/** What the message calls the server if it can tell. */
const NAMES: Readonly<Record<ServerKind, string>> = {
  'an HTTP server': 'an HTTP server',
  'a port that takes connections and says nothing': 'nothing',
  'a port that resets what it does not understand': 'nothing',
  'a port that expects TLS': 'a server that speaks TLS',
  Redis: 'Redis',
  PostgreSQL: 'PostgreSQL',
  MariaDB: 'MySQL or MariaDB',
  etcd: 'an HTTP',
  'etcd with TLS': 'a server that speaks TLS',
  ZooKeeper: 'ZooKeeper',
  'ZooKeeper with TLS': 'a server that speaks TLS',
};
/**
 * Where the message must name the server. MariaDB speaks at once, but may reset the connection before its greeting is read.
 */
const TELLING: readonly (readonly [store: string, kind: ServerKind])[] = [
  ['redisStore', 'an HTTP server'],
  ['postgresStore', 'an HTTP server'],
  ['postgresStore with TLS', 'an HTTP server'],
  ['zookeeperStore', 'an HTTP server'],
  ['zookeeperStore', 'PostgreSQL'],
];
const isTelling = (name: string, kind: ServerKind): boolean =>
  TELLING.some(([store, of]) => store === name && of === kind);
const GUESSES = [
  'closed it without an answer; is it',
  'closed the connection without an answer: it is no',
  'that listens there',
  'what answers there speaks no TLS',
  'as ca in the options for TLS',
  'no etcd answers there, or it speaks TLS',
  'does not support SSL connections',
];

/** Resolves with the first message about a store that cannot be used, which the log of an application shows. */
async function firstComplaint(store: LockStoreFactory): Promise<string> {
  const service = new LockService({ store, application: false, shutdownGraceMs: 0 });
  try {
    return await new Promise<string>((resolve) => {
      service.events$.subscribe((event) => {
        if (event.type === 'store' && !event.state.isUp) resolve(event.state.error.message);
      });
      service.open();
    });
  } finally {
    await service.close();
  }
}

describe.each(Object.keys(SERVERS) as ServerKind[])('at the port of %s', (kind) => {
  const server: { readonly needs?: 'postgres'; start(): Promise<Running> } = SERVERS[kind] as never;
  const wrong = Object.entries(STORES).filter(([, { right }]) => !right.includes(kind));

  (server.needs ? describeWith(server.needs) : describe)('a wrong store', () => {
    let place: string;
    const messages: Record<string, string> = {};
    beforeAll(async () => {
      const running = await server.start();
      place = `127.0.0.1:${running.port}`;
      const asked = wrong.map(async ([name, { at }]) => {
        messages[name] = await firstComplaint(at(place, isTelling(name, kind) ? PATIENT_TIME : TIME));
      });
      await Promise.all(asked).finally(() => running.stop());
    }, 90_000);

    it.each(wrong)(
      'says in one line where it is, and what answers there or may be the matter: %s',
      (name, { product }) => {
        const message = messages[name] as string;
        expect(message).toMatch(new RegExp(`^${product} at ${place}\\S* could not be reached: `));
        expect(message).not.toContain('\n');
        expect(message).not.toContain(SECRET);
        const [, named] = /answers there, but (.*)/.exec(message) ?? [];
        const isNamed = named?.startsWith(NAMES[kind]) ?? false;
        const isGuessed = named === undefined && GUESSES.some((guess) => message.includes(guess));
        expect([message, isNamed || (isGuessed && !isTelling(name, kind))]).toEqual([message, true]);
      },
    );
  });
});
