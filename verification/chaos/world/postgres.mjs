import { startPgbouncer } from '#pgbouncer';
import { startPostgresServer, startStandby } from '#postgres-server';
import { until } from '#until';
import { runSql } from './sql-session.mjs';
import { sqlWorld } from './sql.mjs';

/** So few that a fault can use them up, and the standby has its own. */
const SETTINGS = { max_connections: 60 };
const COMMITS = 'SELECT xact_commit AS statements FROM pg_stat_database WHERE datname = current_database()';

/** One PostgreSQL, and a network of its own before each process. @param {import('../index.d.mts').Kind} kind */
export async function openPostgres(kind) {
  const { world } = await open(kind);
  return world;
}

/** The same, behind PgBouncer in transaction mode. @param {import('../index.d.mts').Kind} kind */
export async function openPgbouncer(kind) {
  let pooler;
  const { world } = await open(kind, async (server) => (pooler = await startPgbouncer(server)));
  return {
    ...world,
    get server() {
      return world.server;
    },
    pooler,
    async stop() {
      await pooler.stop();
      await world.stop();
    },
  };
}

/** A primary and its standby. `kind.synchronous`: no commit is answered that the standby does not have. @param {import('../index.d.mts').Kind} kind */
export async function openStandby(kind) {
  const { synchronous = false } = kind;
  const { world, server } = await open(kind);
  const follow = (primary) => startStandby(primary, { synchronous });
  let standby = await follow(server);
  return {
    ...world,
    get server() {
      return world.server;
    },
    /** None between a failover and `addStandby`. */
    get standby() {
      return standby;
    },
    /** The standby takes the place of the primary, which is dead. */
    async failOver() {
      const old = world.server;
      // The standby may still replay the log, and cancel the statement.
      await until(async () => {
        const [{ waits }] = await runSql('postgres', standby.url, 'SELECT pg_is_in_recovery() AS waits');
        if (waits) await standby.promote();
        return true;
      });
      world.moveTo(standby);
      standby = undefined;
      await old.stop();
    },
    /** The primary pauses while its files are copied. */
    async addStandby() {
      standby = await follow(world.server);
    },
    async stop() {
      await standby?.stop();
      await world.stop();
    },
  };
}

/** @param {import('../index.d.mts').Kind} kind @param {(server: any) => Promise<{ port: number }>} [before] */
async function open(kind, before) {
  const shift = kind.shift?.();
  const server = await startPostgresServer({ settings: { ...SETTINGS, ...kind.settings }, env: shift?.env });
  await runSql('postgres', server.url, 'CREATE ROLE service LOGIN; GRANT ALL ON SCHEMA public TO service');
  const entry = await before?.(server);
  const world = sqlWorld({ dialect: 'postgres', server, entry, shift, statements: COMMITS });
  return { world, server };
}
