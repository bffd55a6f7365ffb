import { MYSQL } from '../../contestants/index.mjs';
import { howSql } from '../report/how-sql.mjs';
import { engineScenarios, TURNS } from '../scenarios/engines.mjs';

/** Commits wait for the disk, as they do in production. */
const SETTINGS = { innodb_flush_log_at_trx_commit: 1, innodb_buffer_pool_size: '128M' };
/** Statements have no limit here, because the server counts each statement of a packet. */
const LIMITS = { withLock: 1, spread: 1.5, hopMs: 5, timesPeer: 10 };

const startMysql = async () => (await import('#mysql-server')).startMysqlServer({ settings: SETTINGS });
const startMariadb = async () => (await import('#mariadb-server')).startMariadbServer({ settings: SETTINGS });

export const mysql = benched('mysql', 'MySQL', startMysql, { ...LIMITS, awaited: 0.8 });
export const mariadb = benched('mariadb', 'MariaDB', startMariadb, { ...LIMITS, awaited: 0.9 });

/**
 * @param {string} id @param {string} name @param {() => Promise<import('../../../../tools/own-server/index.d.mts').OwnServer>} start
 * @param {import('../scenarios/engines.mjs').Limits} limits
 * @returns {import('./store.d.mts').BenchedStore}
 */
function benched(id, name, start, limits) {
  return {
    id,
    name,
    how: howSql(id),
    brief: TURNS,
    scenarios: engineScenarios({ server: name, contestants: MYSQL, limits }),
    async open() {
      const { MysqlObserver } = await import('../measure/mysql-observer.mjs');
      const server = await start();
      const observer = new MysqlObserver(server.url);
      await observer.open();
      return {
        url: server.url.replace(/\w+$/, 'bench'),
        observer,
        sharesOf: async () => new Map(),
        async close() {
          await observer.close();
          await server.stop();
        },
      };
    },
  };
}
