import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const PEERS = new URL('../peers/', import.meta.url);
const WORKER = fileURLToPath(new URL('../src/worker/main.mjs', import.meta.url));

/**
 * @typedef {object} Entrant one line of the tables
 * @property {string} id what `--peers` names
 * @property {string} name as shown
 * @property {string} [skipped] why it cannot run here
 * @property {readonly string[]} command a process that speaks the protocol of src/worker/main.mjs
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
    return { id, name, command: [], skipped: 'not installed: npm ci --prefix bench/peers' };
  }
  const { version } = JSON.parse(readFileSync(manifest, 'utf8'));
  return inNode(id, new URL(`${id}.mjs`, PEERS), `${name} ${version}`);
}

/** Redisson runs in a JVM: its program lies in bench/redisson, as a jar that speaks the same protocol. @returns {Entrant} */
function redisson() {
  const jar = fileURLToPath(new URL('../redisson/bench.jar', import.meta.url));
  const skipped = existsSync(jar) ? undefined : 'needs a JVM and bench/redisson/bench.jar';
  return { id: 'redisson', name: 'Redisson (Java)', command: ['java', '-jar', jar], skipped };
}

export const FLOOR = own('floor', 'floor: two bare commands');
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
  redisson(),
];
