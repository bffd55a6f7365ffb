import pg from 'pg';
import { readWhenQuiet } from './read-when-quiet.mjs';
import { serverCpuUs } from './server-cpu.mjs';

/** The statements of the contestants' database. Those that failed are not among them. */
const CALLS = `SELECT query, sum(calls)::float8 AS calls FROM pg_stat_statements
  WHERE dbid = (SELECT oid FROM pg_database WHERE datname = 'bench') GROUP BY query`;

/** Gives contestants a database of their own, and reads what they do to the server. */
export class PostgresObserver {
  #client;
  #pid = NaN;

  /** @param {string} url of a superuser */
  constructor(url) {
    this.#client = new pg.Client(url);
  }

  async open() {
    await this.#client.connect();
    await this.#client.query('CREATE EXTENSION pg_stat_statements');
    this.#pid = Number(await this.#value(`split_part(pg_read_file('postmaster.pid'), E'\\n', 1)`));
  }

  /** Connections of processes that were killed a moment ago are ended, too. */
  async clear() {
    await this.#client.query('DROP DATABASE IF EXISTS bench WITH (FORCE)');
    await this.#client.query('CREATE DATABASE bench');
  }

  /** @returns {Promise<import('../stores/store.d.mts').Reading>} */
  async read() {
    const { rows } = await this.#client.query(CALLS);
    return { cpuUs: serverCpuUs(this.#pid), calls: new Map(rows.map(({ query, calls }) => [query, calls])) };
  }

  readWhenQuiet() {
    return readWhenQuiet(() => this.read());
  }

  /** @returns {Promise<string>} */
  version() {
    return this.#value(`split_part(current_setting('server_version'), ' ', 1)`);
  }

  async close() {
    await this.#client.end();
  }

  /** @param {string} expression */
  async #value(expression) {
    const { rows } = await this.#client.query(`SELECT ${expression} AS value`);
    return rows[0].value;
  }
}
