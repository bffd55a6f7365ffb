import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { startRedisServer, type RedisServer } from '#redis-server';
import { startDatabaseServer, type DatabaseServer } from '../../apps/seckill/src/demo/database-server.js';
import { checkDatabase } from '../../apps/seckill/src/preflight/check-database.js';
import { checkMysql } from '../../apps/seckill/src/preflight/check-mysql.js';
import { checkPort } from '../../apps/seckill/src/preflight/check-port.js';
import { checkRedis } from '../../apps/seckill/src/preflight/check-redis.js';

const PASSWORD = 'hunter2';
/** How long a check waits for an answer here. */
const WITHIN_MS = 1000;

describe('the check of the servers before the app starts', () => {
  let redis: RedisServer;
  let database: DatabaseServer;
  let web: Server;
  let silent: Server;

  const addressOf = (server: Server) => `127.0.0.1:${(server.address() as AddressInfo).port}`;

  beforeAll(async () => {
    redis = await startRedisServer();
    const client = new Redis(redis.url);
    await client.config('SET', 'requirepass', PASSWORD);
    client.disconnect();
    database = await startDatabaseServer();
    web = createHttpServer((_, response) => response.end('hello')).listen(0, '127.0.0.1');
    silent = createServer((socket) => socket.resume()).listen(0, '127.0.0.1');
    await Promise.all([once(web, 'listening'), once(silent, 'listening')]);
  }, 60_000);
  afterAll(async () => {
    web?.close();
    silent?.close();
    await redis?.stop();
    await database?.close();
  });

  const complaint = (check: Promise<void>) =>
    check.then(
      () => undefined,
      (reason: Error) => reason.message,
    );

  it('finds nothing wrong with a Redis, a Postgres and a port that can be used', async () => {
    expect(await complaint(checkRedis(`redis://:${PASSWORD}@127.0.0.1:${redis.port}`))).toBeUndefined();
    expect(await complaint(checkDatabase(database.url))).toBeUndefined();
    expect(await complaint(checkPort('127.0.0.1', 0))).toBeUndefined();
  });

  const SERVERS = {
    Redis: {
      check: (address: string) => checkRedis(`redis://:swordfish@${address}`, WITHIN_MS),
      named: (address: string) => `REDIS_URL names redis://${address}, but no Redis can be used there`,
      todo: 'Start a Redis there, correct REDIS_URL, or leave it out',
    },
    Postgres: {
      check: (address: string) => checkDatabase(`postgres://me:swordfish@${address}/shop`, WITHIN_MS),
      named: (address: string) =>
        `DATABASE_URL names postgres://${address}/shop, but no Postgres can be used`,
      todo: 'Start a Postgres there, correct DATABASE_URL, or leave it out',
    },
    MySQL: {
      check: (address: string) => checkMysql(`mysql://me:swordfish@${address}/shop`, WITHIN_MS),
      named: (address: string) => `MYSQL_URL names mysql://${address}/shop, but no MySQL can be used there`,
      todo: 'Start a MySQL or MariaDB there, correct MYSQL_URL, or leave it out',
    },
  };

  it.each<[kind: keyof typeof SERVERS, where: string, address: () => string, reason: string]>([
    ['Redis', 'where nobody listens', () => '127.0.0.1:1', 'ECONNREFUSED'],
    ['Redis', 'where nothing answers', () => addressOf(silent), 'no answer within 1000 ms'],
    ['Redis', 'where a web server answers', () => addressOf(web), 'another program listens there'],
    ['Redis', 'with a wrong password', () => `127.0.0.1:${redis.port}`, 'WRONGPASS'],
    ['Postgres', 'where nobody listens', () => '127.0.0.1:1', 'ECONNREFUSED'],
    ['Postgres', 'where nothing answers', () => addressOf(silent), 'no answer within 1000 ms'],
    ['Postgres', 'where a web server answers', () => addressOf(web), 'terminated'],
    ['MySQL', 'where nobody listens', () => '127.0.0.1:1', 'ECONNREFUSED'],
    ['MySQL', 'where nothing answers', () => addressOf(silent), 'no answer within 1000 ms'],
    ['MySQL', 'where a web server answers', () => addressOf(web), 'no answer within 1000 ms'],
  ])('says within seconds why a %s %s cannot be used, and what to do', async (kind, _, address, reason) => {
    const { check, named, todo } = SERVERS[kind];
    const message = await complaint(check(address()));
    for (const part of [named(address()), reason, todo]) expect(message).toContain(part);
    expect(message).not.toContain('swordfish');
  });

  it('says that a port is taken, and how to take another', async () => {
    const { port } = web.address() as AddressInfo;
    const message = await complaint(checkPort('127.0.0.1', port));
    expect(message).toContain(`Port ${port} on 127.0.0.1 is taken`);
    expect(message).toContain('PORT=0 npm start');
  });
});
