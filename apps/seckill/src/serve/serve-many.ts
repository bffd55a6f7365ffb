import { once } from 'node:events';
import type { Config } from '../config.js';
import { openBranches } from '../demo/branches.js';
import { InstancesRepository } from '../instances/instances.repository.js';
import { describePlaces } from '../stores/describe-places.js';

/** Serves the app from several processes until this one is told to end. */
export async function serveMany(count: number, config: Config): Promise<void> {
  const branches = await openBranches({ count, config, keep: true, onStep: console.log });
  try {
    const known = await new InstancesRepository(branches.database).alive();
    const { goods, locks } = describePlaces(config);
    console.log(
      `\n${count} instances, locks in ${locks}, data in ${goods}. The page of each shows the sale of all:`,
    );
    for (const { id, url } of known) {
      const instance = branches.instances.find((it) => it.url === url);
      if (instance) console.log(`  instance ${id}  ${url}  (process ${instance.pid})`);
    }
    console.log(
      '\nSend in a crowd from any of them; kill -9 a process in mid-sale to see the others wait for its lease.',
    );
    await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
  } finally {
    await branches.close();
  }
}
