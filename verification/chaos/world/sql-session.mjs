import mysql from 'mysql2/promise';
import pg from 'pg';
import { until } from '#until';

const CONNECT_MS = 2000;
/** The administrator writes also where a fault has forbidden it to everybody else. */
const AS_USUAL = '-c default_transaction_read_only=off -c default_transaction_isolation=read\\ committed';

/** @type {Record<string, (url: string) => Promise<{ query(text: string): Promise<any[]>, end(): Promise<unknown> }>>} */
const CONNECT = {
  async postgres(url) {
    const options = { connectionString: url, options: AS_USUAL, connectionTimeoutMillis: CONNECT_MS };
    const client = new pg.Client(options).on('error', () => undefined);
    await client.connect();
    return { query: async (text) => (await client.query(text)).rows, end: () => client.end() };
  },
  async mysql(url) {
    const client = await mysql.createConnection({ uri: url, connectTimeout: CONNECT_MS });
    client.on('error', () => undefined);
    return { query: async (text) => (await client.query(text))[0], end: () => client.end() };
  },
};

/**
 * A connection past the library and past the faulty network.
 *
 * @param {'postgres' | 'mysql'} dialect @param {string} url
 */
export function sqlSession(dialect, url) {
  return CONNECT[dialect](url);
}

/**
 * Runs one statement on a connection of its own. A server that takes no connection yet is tried again.
 *
 * @param {'postgres' | 'mysql'} dialect @param {string} url @param {string} text @returns {Promise<any[]>} the rows
 */
export async function runSql(dialect, url, text) {
  let session;
  await until(async () => {
    session = await sqlSession(dialect, url);
    return true;
  });
  try {
    return await session.query(text);
  } finally {
    await session.end();
  }
}
