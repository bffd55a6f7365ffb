import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { redisson } from './redisson.mjs';

const PEERS = new URL('../peers/', import.meta.url);
const WORKER = fileURLToPath(new URL('../src/worker/main.mjs', import.meta.url));

/**
 * @typedef {object} Entrant one line of the tables
 * @property {string} id the name for `--peers`
 * @property {string} name as shown
 * @property {string} [skipped] why it cannot run here
 * @property {readonly string[]} [command] a process that speaks the protocol of src/worker/main.mjs
 * @property {() => { command: readonly string[] } | { skipped: string }} [prepare] builds it, when it is to run
 * @property {{ leastMs: number, longestMs: number }} [warmUp] where the warm-up for Node is too short
 */

/** @param {string} id @param {URL} module @param {string} name @returns {Entrant} */
const inNode = (id, module, name) => ({
  id,
  name,
  command: [process.execPath, '--expose-gc', '--no-warnings', WORKER, fileURLToPath(module)],
});

/** @param {string} id @param {string} name */
const own = (id, name) => inNode(id, new URL(`${id}.mjs`, import.meta.url), name);

/** @param {string} id @param {string} [name] its package @returns {Entrant} */
function peer(id, name = id) {
  const manifest = new URL(`node_modules/${name}/package.json`, PEERS);
  if (!existsSync(manifest)) {
    return { id, name, skipped: 'not installed: npm ci --prefix bench/peers' };
  }
  const { version } = JSON.parse(readFileSync(manifest, 'utf8'));
  return inNode(id, new URL(`${id}.mjs`, PEERS), `${name} ${version}`);
}

export const FLOOR = own('floor', 'floor: two bare commands');
export const QUEUE = own('queue', 'floor: a queue of promises');
export const OURS = own('ours', 'ours, withLock');
export const OURS_AWAITED = own('ours-awaited', 'ours, acquire + release');

/** @returns {Entrant[]} */
export const peers = () => [
  peer('redis-semaphore'),
  peer('redlock'),
  peer('sesamecare-redlock', '@sesamecare-oss/redlock'),
  peer('simple-redis-mutex'),
  peer('murlock'),
  peer('redlock-universal'),
  peer('node-redisson'),
  peer('verrou', '@verrou/core'),
  ...redisson(),
];
