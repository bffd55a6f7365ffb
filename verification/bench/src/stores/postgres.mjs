import { POSTGRES } from '../../contestants/index.mjs';
import { howSql } from '../report/how-sql.mjs';
import { engineScenarios, TURNS } from '../scenarios/engines.mjs';

/** Commits wait for the disk, as they do in production. One peer opens a connection for each of 100 callers. */
const SETTINGS = {
  fsync: 'on',
  full_page_writes: 'on',
  shared_buffers: '128MB',
  max_connections: 300,
  shared_preload_libraries: 'pg_stat_statements',
};

/** @type {import('./store.d.mts').BenchedStore} */
export const postgres = {
  id: 'postgres',
  name: 'PostgreSQL',
  how: howSql('postgres'),
  brief: TURNS,
  scenarios: engineScenarios({
    server: 'PostgreSQL',
    contestants: POSTGRES,
    limits: {
      awaited: 0.95,
      withLock: 1.1,
      spread: 2,
      hopTimesFloor: 1.3,
      timesPeer: 20,
      jain: 0.95,
      perLock: 2,
      // One a second. The five seconds that are watched may have six.
      perWaitedKey: 1.2,
      perBeat: 8,
      lostSwaps: 0.02,
    },
  }),
  async open() {
    const { startPostgresServer } = await import('#postgres-server');
    const { benchUrl, PostgresObserver } = await import('../measure/postgres-observer.mjs');
    const server = await startPostgresServer({ settings: SETTINGS });
    const observer = new PostgresObserver(server.url);
    await observer.open();
    return {
      url: benchUrl(server.url),
      observer,
      sharesOf: async () => new Map(),
      async close() {
        await observer.close();
        await server.stop();
      },
    };
  },
};
