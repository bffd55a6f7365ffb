import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawnGuarded } from '../processes/index.mjs';
import { findRedisServer } from '../redis-server/index.mjs';
import { freePort } from '../own-server/index.mjs';

/**
 * One sentinel that watches the master at `masterPort` under `name`. It writes into its configuration, so that must be
 * a file.
 *
 * @param {string} name @param {number} masterPort
 * @returns {Promise<{ port: number, stop: () => Promise<void> }>}
 */
export async function startSentinel(name, masterPort) {
  const { command, env } = findRedisServer();
  const folder = await mkdtemp(join(tmpdir(), 'redis-sentinel-'));
  const port = await freePort();
  const file = join(folder, 'sentinel.conf');
  const lines = [
    `port ${port}`,
    'bind 127.0.0.1',
    `dir ${folder}`,
    `sentinel monitor ${name} 127.0.0.1 ${masterPort} 1`,
    `sentinel down-after-milliseconds ${name} 1000`,
    `sentinel failover-timeout ${name} 5000`,
  ];
  await writeFile(file, `${lines.join('\n')}\n`);
  const { child, exited } = spawnGuarded(command, [file, '--sentinel'], { env, folder });
  return {
    port,
    async stop() {
      child.kill('SIGKILL');
      await exited;
      await rm(folder, { recursive: true, force: true });
    },
  };
}
