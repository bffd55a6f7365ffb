import { spawnSync } from 'node:child_process';
import { beforeAll, expect, it } from '@jest/globals';
import { withoutPackages } from '../support/without-packages.js';

const NODE_REDIS =
  'redisStore connects to Sentinels and to clusters by node-redis, and the package redis is not to be found. Run npm install redis. In a bundle, where no package is found, leave redis outside of it, or give redisStore a client of ioredis.';
const IOREDIS =
  'redisStore connects to a URL or to options by the package ioredis, which it does not find. Run npm install ioredis. In a bundle, where no package is found, give redisStore a client: new Redis(url) of ioredis, or createClient({ url }) of node-redis.';

const TARGETS = [
  ['Sentinels', "createSentinel({ name: 'm', sentinelRootNodes: [{ host: 'h', port: 1 }] })", NODE_REDIS],
  ['a cluster', "createCluster({ rootNodes: [{ url: 'redis://h' }] })", NODE_REDIS],
  ['a URL', "'redis://h'", IOREDIS],
  ['options', "{ host: 'h', retryStrategy: undefined }", IOREDIS],
] as const;

let said: string;
beforeAll(() => {
  const opens = TARGETS.map(
    ([, target]) => `
    try {
      new LockService({ store: redisStore(${target}) }).open();
    } catch (error) {
      console.log(error.name, error.message);
    }`,
  );
  // The application has made its client, and this package finds none: it is part of a bundle, for example.
  const program = `
    const { createCluster, createSentinel } = await import('redis');
    await import(${JSON.stringify(withoutPackages(/^(io)?redis$/))});
    const { LockService } = await import('nestjs-distributed-lock');
    const { redisStore } = await import('nestjs-distributed-lock/redis');${opens.join('')}`;
  const args = ['--input-type=module', '-e', program];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  said = stdout || stderr;
}, 60_000);

it.each(TARGETS)(
  '%s where its package is not found says what to install, and what to do in a bundle',
  (what, _target, message) => {
    const line = said.split('\n')[TARGETS.findIndex(([name]) => name === what)];
    expect(line).toBe(`LockConfigurationError ${message}`);
  },
);
