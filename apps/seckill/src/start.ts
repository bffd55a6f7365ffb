import { parseArgs } from 'node:util';
import { launch } from './launch.js';

const USAGE = `npm start -- [--instances <n>]

Serves the flash sale as a page, from one process or from several.

DATABASE_URL   a Postgres for the goods; without it an embedded one, in memory
REDIS_URL      a Redis for the locks; without it they are in the Postgres of the goods
PORT           the port of the first instance (3000); the others take the next ones
WATCHDOG_MS    how long the locks of a killed instance outlive it (30000)
WAIT_MS        how long a buyer waits for the lock (10000)`;

/** Each instance is a process of about 100 MB. */
const MAX_INSTANCES = 8;

try {
  const { values } = parseArgs({
    options: { instances: { type: 'string', default: '1' }, help: { type: 'boolean' } },
  });
  const count = Number(values.instances);
  if (values.help) console.log(USAGE);
  else if (!Number.isInteger(count) || count < 1 || count > MAX_INSTANCES) {
    throw new Error(
      `--instances must be a whole number from 1 to ${MAX_INSTANCES}; it is "${values.instances}".`,
    );
  } else await serve(count);
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}

async function serve(count: number): Promise<void> {
  const shop = await launch(count, process.env);
  for (const { id, url, process: child } of shop.instances) {
    console.log(`instance ${id}  ${url}  (process ${child.pid})`);
  }
  console.log(`
Open a page and send in the crowd. kill -9 a process in mid-sale to see the others wait for its lease. Or try:
  curl -X POST ${shop.instances[0]!.url}/goods/1/purchase -H 'x-user-id: ann'`);
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void shop.close().then(() => process.exit()));
  }
}
