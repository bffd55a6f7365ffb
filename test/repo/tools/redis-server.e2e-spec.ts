import { spawn } from 'node:child_process';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { startRedisServer, type RedisServer } from '#redis-server';
import { until } from '#until';

/** A program that starts a server, says where, and waits. */
const PROGRAM = `
  import { startRedisServer } from '#redis-server';
  const server = await startRedisServer();
  console.log(server.port);
`;

const listens = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true));
    socket.once('error', () => resolve(false)).once('connect', () => socket.destroy());
  });

describe('the test server', () => {
  let server: RedisServer;
  let client: Redis;

  beforeAll(async () => {
    server = await startRedisServer();
    client = new Redis(server.url, { maxRetriesPerRequest: 0, commandTimeout: 300, retryStrategy: () => 20 });
    client.on('error', () => {});
  });
  afterAll(async () => {
    client.disconnect();
    await server.stop();
  });

  it('answers nothing while it is paused, and all of it once resumed', async () => {
    await client.set('a', 'kept');
    await server.pause();
    await expect(client.get('a')).rejects.toThrow('timed out');
    await server.resume();
    expect(await client.get('a')).toBe('kept');
  });

  it('comes back empty on the same port after a restart', async () => {
    await client.set('a', 'lost');
    await server.restart();
    await until(() => client.get('a').then((value) => value === null));
    expect(client.options.port).toBe(server.port);
  });

  it('keeps its data over a restart if told to', async () => {
    const durable = await startRedisServer({ args: ['--appendonly', 'yes', '--appendfsync', 'always'] });
    const other = new Redis(durable.url, { retryStrategy: () => 20 }).on('error', () => {});
    try {
      await other.set('a', 'kept');
      await durable.restart();
      expect(await other.get('a')).toBe('kept');
    } finally {
      other.disconnect();
      await durable.stop();
    }
  });

  it('ends with a program that is killed with SIGKILL', async () => {
    const program = spawn(process.execPath, ['--input-type=module', '-e', PROGRAM]);
    const output: Buffer = await new Promise((resolve) => program.stdout.once('data', resolve));
    const port = Number(output.toString());
    expect(await listens(port)).toBe(true);
    program.kill('SIGKILL');
    await until(async () => !(await listens(port)));
  });
});
