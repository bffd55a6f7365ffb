import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { chmod, chown, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { spawnGuarded } from '../processes/index.mjs';
import { freePort } from '../redis-server/free-port.mjs';
import { findPostgresServer } from './find-postgres-server.mjs';
import { processesOf } from './processes-of.mjs';

const START_MS = 30_000;
const ATTEMPTS = 5;

/** The log is written before each commit is answered, but nobody waits for the disk: only processes are killed here. */
const SETTINGS = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  fsync: 'off',
  full_page_writes: 'off',
  shared_buffers: '16MB',
};

/** @type {import('./index.d.mts').startPostgresServer} */
export async function startPostgresServer({ settings = {} } = {}) {
  const how = findPostgresServer();
  const folder = await mkdtemp(join(tmpdir(), 'postgres-server-'));
  try {
    await initialise(how, folder);
    for (let attempt = 1; ; attempt++) {
      const port = await freePort();
      const all = { ...SETTINGS, ...settings, port };
      try {
        return serverOn(port, folder, () => run(how, folder, all), await run(how, folder, all));
      } catch (error) {
        // Somebody may have taken the port in between.
        if (attempt === ATTEMPTS) throw error;
      }
    }
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

/** @returns {import('./index.d.mts').PostgresServer} */
function serverOn(port, folder, start, running) {
  const kill = () => running.kill();
  return {
    port,
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    pause: async () => running.pause(),
    resume: async () => running.resume(),
    kill,
    async restart() {
      await kill();
      running = await start();
    },
    async stop() {
      await kill();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** @param {import('./index.d.mts').PostgresCommand} how @param {string} folder */
async function initialise({ bin, env, user }, folder) {
  if (user.uid !== undefined) await chown(folder, user.uid, user.gid);
  await chmod(folder, 0o700);
  const options = ['--username=postgres', '--auth=trust', '--encoding=UTF8', '--no-locale', '--no-sync'];
  await promisify(execFile)(join(bin, 'initdb'), [...options, '-D', join(folder, 'data')], {
    env,
    cwd: folder,
    ...user,
  });
}

/** Starts it; resolves when it takes connections. */
async function run({ bin, env, user }, folder, settings) {
  const data = join(folder, 'data');
  const log = await open(join(folder, 'log'), 'w');
  const words = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const { child, exited } = spawnGuarded(join(bin, 'postgres'), ['-D', data, ...words], {
    env,
    folder,
    stdio: log.fd,
    cwd: folder,
    ...user,
  });
  await log.close();
  let ended = false;
  void exited.then(() => (ended = true));
  const processes = processesOf(child.pid, () => ended);
  const kill = async () => {
    await processes.kill();
    await exited;
  };
  const deadline = Date.now() + START_MS;
  while (!isReady(join(data, 'postmaster.pid'), child.pid)) {
    if (ended || Date.now() > deadline) {
      await kill();
      throw new Error(`${bin}/postgres did not start:\n${readFileSync(join(folder, 'log'), 'utf8')}`);
    }
    await pause(20);
  }
  return { ...processes, kill };
}

/** Its own word, as pg_ctl reads it; another server may have won the race for the port. */
function isReady(file, pid) {
  if (!existsSync(file)) return false;
  const lines = readFileSync(file, 'utf8').split('\n');
  return Number(lines[0]) === pid && lines[7]?.trim() === 'ready';
}
