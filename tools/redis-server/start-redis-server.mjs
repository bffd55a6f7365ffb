import { execFile } from 'node:child_process';
import { connect } from 'node:net';
import { promisify } from 'node:util';
import { runUntilReady, startOwnServer } from '../own-server/index.mjs';
import { findRedisServer } from './find-redis-server.mjs';

const IMAGE = 'redis:7';

/** @type {import('./index.d.mts').startRedisServer} */
export async function startRedisServer({ args = [], env = {} } = {}) {
  const found = findRedisServer();
  const how = { ...found, env: { ...found.env, ...env } };
  return startOwnServer({
    name: 'redis-server',
    urlOn: (port) => `redis://127.0.0.1:${port}`,
    run: (port, folder) => (how.container ? runContainer : runProcess)(how, port, folder, args),
  });
}

const settingsFor = (port) => [
  '--port',
  `${port}`,
  '--save',
  '',
  '--appendonly',
  'no',
  '--loglevel',
  'warning',
];

function runProcess({ command, env }, port, folder, args) {
  const all = [...settingsFor(port), '--bind', '127.0.0.1', '--dir', folder, ...args];
  return runUntilReady(command, all, { env, folder, isReady: (pid) => answers(port, pid) });
}

function runContainer({ command, env }, port, folder, args) {
  const name = `redis-test-${process.pid}-${port}`;
  const where = ['--name', name, '-p', `127.0.0.1:${port}:${port}`, '-v', `${folder}:/data`];
  const server = ['redis-server', ...settingsFor(port), '--protected-mode', 'no', ...args];
  return runUntilReady(command, ['run', '--rm', ...where, IMAGE, ...server], {
    env,
    folder,
    isReady: () => answers(port),
    signal: (signal) => signalContainer(name, signal),
  });
}

/** Signals to Docker's client would not reach the server behind it. */
async function signalContainer(name, signal) {
  const verb = { SIGSTOP: 'pause', SIGCONT: 'unpause', SIGKILL: 'kill' }[signal];
  await promisify(execFile)('docker', [verb, name]).catch(() => {});
}

/**
 * Whether the server on `port` is ours, by its process id: another may have won the race for the port.
 *
 * @param {number} port @param {number} [pid] @returns {Promise<boolean>}
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
