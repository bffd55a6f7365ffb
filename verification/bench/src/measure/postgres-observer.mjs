import pg from 'pg';
import { readWhenQuiet } from './read-when-quiet.mjs';
import { serverCpuUs } from './server-cpu.mjs';

/** Counts the statements of the contestants' database that have succeeded. */
const CALLS = `SELECT query, sum(calls)::float8 AS calls FROM pg_stat_statements
  WHERE dbid = (SELECT oid FROM pg_database WHERE datname = 'bench') GROUP BY query`;

/** Each of them writes one row, if no other client has written it since it was read. */
const ATTEMPTS = `SELECT coalesce(sum(calls), 0)::float8 AS calls FROM pg_stat_statements
  WHERE dbid = (SELECT oid FROM pg_database WHERE datname = 'bench') AND query ~ '(INSERT INTO|UPDATE) "?nest_lock'`;
const WRITTEN = `SELECT (n_tup_ins + n_tup_upd)::float8 AS rows FROM pg_stat_user_tables WHERE relname = 'nest_lock'`;
const END_ALL = `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = 'bench'`;

/** The contestants' database. @param {string} url of the server */
export const benchUrl = (url) => url.replace(/\w+$/, 'bench');

/** Gives contestants a database of their own, and reads what they do to the server. */
export class PostgresObserver {
  #url;
  #client;
  #pid = NaN;

  /** @param {string} url of a superuser */
  constructor(url) {
    this.#url = url;
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

  /**
   * How often our store tried to write a row of its table since `clear`, and how often it did. A connection reports its rows
   * to the statistics when it ends, so that all are ended before.
   *
   * @returns {Promise<{ attempts: number, written: number }>}
   */
  async writes() {
    await this.#client.query(END_ALL);
    const inside = new pg.Client(benchUrl(this.#url));
    await inside.connect();
    const { rows } = await inside.query(WRITTEN);
    await inside.end();
    const { rows: attempts } = await this.#client.query(ATTEMPTS);
    return { attempts: attempts[0].calls, written: rows[0].rows };
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
