// One task with one system, in a process of its own: node run-task.mjs <system> <task>. Prints the answer as JSON.
import { Redis } from 'ioredis';
import pg from 'pg';
import { startPostgresServer } from '#postgres-server';
import { startRedisServer } from '#redis-server';
import { SYSTEMS } from '../tasks/systems.mjs';
import { TASKS } from '../tasks/tasks.mjs';

/** How to start each server, and how to count the connections of its clients, without the one who counts. */
const SERVERS = {
  redis: {
    start: startRedisServer,
    async countConnections(url) {
      const redis = new Redis(url);
      const list = await redis.client('LIST', 'TYPE', 'normal');
      redis.disconnect();
      return list.trim().split('\n').length - 1;
    },
  },
  postgres: {
    start: startPostgresServer,
    async countConnections(url) {
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      const backends = "SELECT FROM pg_stat_activity WHERE backend_type = 'client backend'";
      const { rowCount } = await client.query(backends);
      await client.end();
      return rowCount - 1;
    },
  },
};

const [name, task] = process.argv.slice(2);
const { system } = await SYSTEMS[name]();
const { start, countConnections } = SERVERS[system.server];
const server = await start();
const answer = await TASKS[task].run({
  ...system,
  name,
  url: server.url,
  open: (onUnknown) => system.open(server.url, onUnknown),
  countConnections: () => countConnections(server.url),
});
// Exits although the system may keep connections and timers.
process.stdout.write(`${JSON.stringify({ answer })}\n`, () => void server.stop().then(() => process.exit()));
