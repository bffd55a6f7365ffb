import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { createConnection } from 'mysql2/promise';
import { readWhenQuiet } from './read-when-quiet.mjs';
import { serverCpuUs } from './server-cpu.mjs';

/** Counted beside the statement that was prepared, or sent by this observer alone. */
const NOT_COUNTED = /^Com_(stmt_|show_|admin_)/;

/** Gives contestants a database of their own, and reads what they do to the server. */
export class MysqlObserver {
  #url;
  /** @type {import('mysql2/promise').Connection} */
  #connection;
  #pid = NaN;

  /** @param {string} url of a superuser */
  constructor(url) {
    this.#url = url;
  }

  async open() {
    this.#connection = await createConnection(this.#url);
    const [{ folder, file }] = await this.#rows('SELECT @@datadir AS folder, @@pid_file AS file');
    this.#pid = Number(readFileSync(resolve(folder, file), 'utf8'));
  }

  /** Connections of processes that were killed a moment ago are ended, too. */
  async clear() {
    const others =
      'SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user = "root"';
    for (const { id } of await this.#rows(others)) await this.#connection.query(`KILL ${id}`).catch(isGone);
    await this.#connection.query('DROP DATABASE IF EXISTS bench');
    await this.#connection.query('CREATE DATABASE bench');
  }

  /** @returns {Promise<import('../stores/store.d.mts').Reading>} */
  async read() {
    const rows = await this.#rows(`SHOW GLOBAL STATUS LIKE 'Com\\_%'`);
    const counted = rows.filter(({ Variable_name: name }) => !NOT_COUNTED.test(name));
    const calls = new Map(counted.map(({ Variable_name: name, Value: value }) => [name, Number(value)]));
    return { cpuUs: serverCpuUs(this.#pid), calls };
  }

  readWhenQuiet() {
    return readWhenQuiet(() => this.read());
  }

  /** @returns {Promise<string>} */
  async version() {
    const [{ version }] = await this.#rows(`SELECT SUBSTRING_INDEX(VERSION(), '-', 1) AS version`);
    return version;
  }

  async close() {
    await this.#connection.end();
  }

  /** @param {string} sql @returns {Promise<any[]>} */
  async #rows(sql) {
    const [rows] = await this.#connection.query(sql);
    return /** @type {any[]} */ (rows);
  }
}

/** Another session may end before its turn comes. @param {{ code?: string }} error */
function isGone(error) {
  if (error.code !== 'ER_NO_SUCH_THREAD') throw error;
}
