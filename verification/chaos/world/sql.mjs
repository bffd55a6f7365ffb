import { TcpProxy } from '#tcp-proxy';
import { heldOn } from './held-on.mjs';
import { runSql, sqlSession } from './sql-session.mjs';

/** A user of its own for the service, with as many rights as it needs. */
const USER = 'service';

/**
 * A world on an SQL server that runs, and a network of its own before each process. `statements` asks the server how many
 * it has executed.
 *
 * @param {{ dialect: 'postgres' | 'mysql', server: import('#postgres-server').PostgresServer, user?: string,
 *   entry?: { port: number }, shift?: any, statements: string }} about
 */
export function sqlWorld({ dialect, server, user = USER, entry = server, shift, statements }) {
  const proxies = new Map();
  let current = server;
  /** @param {string} text */
  const run = (text) => runSql(dialect, current.url, text);
  return {
    dialect,
    shift,
    get server() {
      return current;
    },
    /** One statement of the administrator. */
    run,
    /** A connection of the administrator. */
    session: () => sqlSession(dialect, current.url),
    /** A connection as the service has. */
    serviceSession: () => sqlSession(dialect, urlOf(current, user)),
    /** From now on this server is the one behind every network. @param {import('#postgres-server').PostgresServer} next */
    moveTo(next) {
      current = next;
      for (const proxy of proxies.values()) {
        proxy.targetPort = next.port;
        for (const link of proxy.open) link.reset();
      }
    },
    /** The network between this process and the server, as a list of one. @param {string} app */
    networksOf: (app) => [proxies.get(app)],
    async targetFor(app) {
      const proxy = await TcpProxy.before(entry.port, { keepsCommands: false, protocol: 'sql' });
      proxies.set(app, proxy);
      return { [dialect]: urlOf({ url: current.url, port: proxy.port }, user) };
    },
    remains: (keys) => heldOn({ [dialect]: current.url }, keys),
    async sample() {
      const [{ found }] = await run('SELECT count(*) AS found FROM nest_lock').catch(() => [{}]);
      const [row] = await run(statements);
      return { rows: found && Number(found), statements: Number(Object.values(row).at(-1)) };
    },
    async stop() {
      await Promise.all([...proxies.values()].map((proxy) => proxy.close()));
      await current.stop();
      shift?.remove();
    },
  };
}

function urlOf({ url, port }, user) {
  const changed = new URL(url);
  changed.username = user;
  if (port) changed.port = String(port);
  return String(changed);
}
