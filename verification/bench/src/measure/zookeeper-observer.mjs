import { readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { connectZookeeper } from '../../contestants/session/zookeeper-api.mjs';
import { readWhenQuiet } from './read-when-quiet.mjs';
import { serverCpuUs } from './server-cpu.mjs';

/** The server keeps its own znodes under this name. */
const OWN = 'zookeeper';

/** Gives contestants an empty ZooKeeper, and reads what they do to it. */
export class ZookeeperObserver {
  #server;
  #pid;
  /** @type {Awaited<ReturnType<typeof connectZookeeper>>} */
  #client;
  /** The server counts its own questions, too. */
  #asked = 0;

  /**
   * @param {{ readonly port: number }} server @param {string} mark in the command lines of its process, and of those of its ensemble
   * @param {number} [index] of one of these; that of the ensemble's other members has another
   */
  constructor(server, mark, index = 0) {
    this.#server = server;
    this.#pid = pidsOf(mark)[index] ?? NaN;
  }

  async open() {
    this.#client = await connectZookeeper(`zookeeper://127.0.0.1:${this.#server.port}`);
  }

  /** The sessions of processes that were killed a moment ago keep nothing. */
  async clear() {
    for (const name of await this.#childrenOf('/')) if (name !== OWN) await this.#removeAll(`/${name}`);
  }

  /** @returns {Promise<import('../stores/store.d.mts').Reading>} */
  async read() {
    const [, received] = /^Received: (\d+)$/m.exec(await this.#ask('srvr'));
    return { cpuUs: serverCpuUs(this.#pid), calls: new Map([['all', Number(received) - this.#asked]]) };
  }

  readWhenQuiet() {
    return readWhenQuiet(() => this.read());
  }

  /** @returns {Promise<string>} */
  async version() {
    return /version: ([\d.]+)/.exec(await this.#ask('srvr'))[1];
  }

  close() {
    this.#client.close();
  }

  /** @param {string} path */
  async #removeAll(path) {
    const names = await this.#childrenOf(path);
    await Promise.all(names.map((name) => this.#removeAll(`${path}/${name}`)));
    // A session that ends meanwhile takes its own with it.
    await this.#client.remove(path).catch(() => undefined);
  }

  /** @param {string} path @returns {Promise<readonly string[]>} */
  #childrenOf(path) {
    return this.#client.childrenOf(path).catch(() => []);
  }

  /** @param {string} word @returns {Promise<string>} */
  #ask(word) {
    return new Promise((resolve, reject) => {
      let answer = '';
      const socket = connect(this.#server.port, '127.0.0.1', () => socket.write(word));
      this.#asked++;
      socket.on('data', (chunk) => (answer += chunk)).on('error', reject);
      socket.on('close', () => resolve(answer));
    });
  }
}

/** @param {string} mark @returns {number[]} none where there is no /proc */
function pidsOf(mark) {
  if (process.platform !== 'linux') return [];
  const isMarked = (pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(mark);
    } catch {
      return false;
    }
  };
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry) && isMarked(entry))
    .map(Number);
}
