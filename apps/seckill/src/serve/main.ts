import { once } from 'node:events';
import { parseArgs } from 'node:util';
import { openBranches } from '../demo/branches.js';

const USAGE = `npm start -- [options]

  --instances <n>  n processes, with a real Redis and one database (default 1: all in one process, 8 at most)`;
const MOST = 8;

/** @throws Error with the usage */
function readInstances(args: string[]): number {
  try {
    const options = { instances: { type: 'string', default: '1' } } as const;
    const count = Number(parseArgs({ args, options }).values.instances);
    if (Number.isInteger(count) && count >= 1 && count <= MOST) return count;
    throw new Error(`--instances must be a whole number from 1 to ${MOST}.`);
  } catch (error) {
    throw new Error(`${(error as Error).message}\n\n${USAGE}`, { cause: error });
  }
}

async function serveMany(count: number): Promise<void> {
  const { REDIS_URL: redisUrl, DATABASE_URL: databaseUrl } = process.env;
  const branches = await openBranches({ count, redisUrl, databaseUrl });
  try {
    console.log(
      `${count} instances on one Redis and one database. The page of each shows the sections of all:`,
    );
    for (const { url } of branches.instances) console.log(`  ${url}`);
    await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
  } finally {
    await branches.close();
  }
}

try {
  const count = readInstances(process.argv.slice(2));
  await (count === 1 ? import('../main.js') : serveMany(count));
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}
