import { connectEtcd } from '../../contestants/session/etcd-api.mjs';
import { readWhenQuiet } from './read-when-quiet.mjs';

/** Messages that the server has received from clients: a transaction is one, however much it does. */
const RECEIVED = /^grpc_server_msg_received_total\{grpc_method="(\w+)".*\} (\S+)$/gm;
const CPU = /^process_cpu_seconds_total (\S+)$/m;
/** The least key of all, and the end of all keys. */
const ALL = { key: Buffer.of(0), rangeEnd: Buffer.of(0) };

/** Gives contestants an empty etcd, and reads what they do to it. */
export class EtcdObserver {
  #url;
  #client;

  /** @param {string} url */
  constructor(url) {
    this.#url = url;
    this.#client = connectEtcd(url);
  }

  /** Sessions of processes that were killed a moment ago are ended, too. */
  async clear() {
    const { leases } = await this.#client.ask('LeaseLeases');
    // Another may end before its turn comes.
    await Promise.allSettled(leases.map(({ ID }) => this.#client.ask('LeaseRevoke', { ID })));
    const { header } = await this.#client.ask('DeleteRange', ALL);
    // Fails if nothing was written since the last time.
    await this.#client.ask('Compact', { revision: header.revision, physical: true }).catch(() => undefined);
  }

  /** @returns {Promise<import('../stores/store.d.mts').Reading>} */
  async read() {
    const text = await (await fetch(new URL('metrics', this.#url))).text();
    const calls = new Map();
    for (const [, method, count] of text.matchAll(RECEIVED)) {
      calls.set(method, (calls.get(method) ?? 0) + Number(count));
    }
    return { cpuUs: Number(CPU.exec(text)?.[1]) * 1e6, calls };
  }

  readWhenQuiet() {
    return readWhenQuiet(() => this.read());
  }

  /** @returns {Promise<string>} */
  async version() {
    const { version } = await this.#client.ask('Status');
    return version;
  }

  close() {
    this.#client.close();
  }
}
