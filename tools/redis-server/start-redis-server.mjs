import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, open, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { spawnGuarded } from '../processes/index.mjs';
import { findRedisServer } from './find-redis-server.mjs';
import { freePort } from './free-port.mjs';

const IMAGE = 'redis:7';
const START_MS = 15_000;
const ATTEMPTS = 5;

/** @type {import('./index.d.mts').startRedisServer} */
export async function startRedisServer({ args = [], env = {} } = {}) {
  const found = findRedisServer();
  const how = { ...found, env: { ...found.env, ...env } };
  const folder = await mkdtemp(join(tmpdir(), 'redis-server-'));
  for (let attempt = 1; ; attempt++) {
    const port = await freePort();
    try {
      return serverOn(port, how, folder, args, await run(how, port, folder, args));
    } catch (error) {
      // Somebody may have taken the port in between.
      if (attempt < ATTEMPTS) continue;
      await rm(folder, { recursive: true, force: true });
      throw error;
    }
  }
}

/** @returns {import('./index.d.mts').RedisServer} */
function serverOn(port, how, folder, args, running) {
  const kill = async () => {
    await running.signal('SIGKILL');
    await running.exited;
  };
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    pause: () => running.signal('SIGSTOP'),
    resume: () => running.signal('SIGCONT'),
    kill,
    async restart() {
      await kill();
      running = await run(how, port, folder, args);
    },
    async stop() {
      await kill();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Starts one process or container; resolves when it answers. */
async function run(how, port, folder, args) {
  const name = `redis-test-${process.pid}-${port}`;
  const settings = ['--port', `${port}`, '--save', '', '--appendonly', 'no', '--loglevel', 'warning'];
  const log = await open(join(folder, 'log'), 'w');
  const { child, exited } = how.container
    ? spawnGuarded(
        how.command,
        [
          'run',
          '--rm',
          '--name',
          name,
          '-p',
          `127.0.0.1:${port}:${port}`,
          '-v',
          `${folder}:/data`,
          IMAGE,
        ].concat(['redis-server', ...settings, '--protected-mode', 'no', ...args]),
        { env: how.env, folder, stdio: log.fd },
      )
    : spawnGuarded(how.command, [...settings, '--bind', '127.0.0.1', '--dir', folder, ...args], {
        env: how.env,
        folder,
        stdio: log.fd,
      });
  await log.close();
  let ended = false;
  void exited.then(() => (ended = true));
  const signal = async (which) => {
    if (ended) return;
    if (how.container) await signalContainer(name, which);
    else child.kill(which);
  };
  const deadline = Date.now() + START_MS;
  while (!(await answers(port, how.container ? undefined : child.pid))) {
    if (ended || Date.now() > deadline) {
      await signal('SIGKILL');
      throw new Error(
        `${how.command} did not start on port ${port}:\n${readFileSync(join(folder, 'log'), 'utf8')}`,
      );
    }
    await pause(20);
  }
  return { exited, signal };
}

/** Signals to Docker's client would not reach the server behind it. */
async function signalContainer(name, signal) {
  const verb = { SIGSTOP: 'pause', SIGCONT: 'unpause', SIGKILL: 'kill' }[signal];
  await promisify(execFile)('docker', [verb, name]).catch(() => {});
}

/**
 * Whether the server on `port` is ours, by its process id: another may have won the race for the port.
 *
 * @param {number} port @param {number | undefined} pid @returns {Promise<boolean>}
 */
function answers(port, pid) {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write('INFO server\r\n'));
    let text = '';
    const settle = (up) => {
      socket.destroy();
      resolve(up);
    };
    socket.setEncoding('utf8').on('data', (chunk) => {
      text += chunk;
      const process_id = /process_id:(\d+)/.exec(text);
      if (process_id) settle(pid === undefined || Number(process_id[1]) === pid);
    });
    socket.once('error', () => settle(false));
    socket.setTimeout(500, () => settle(false));
  });
}
