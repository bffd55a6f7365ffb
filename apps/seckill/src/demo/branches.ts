import { fileURLToPath } from 'node:url';
import type { Config } from '../config.js';
import type { Database } from '../database/database.js';
import { PostgresDatabase } from '../database/postgres.database.js';
import { SERVERS, type ServerName } from '../stores/servers.js';
import { startInstance, type Instance } from './instance.js';
import { openServers, type Servers, type ServersOptions } from './open-servers.js';
import { ToClose } from './to-close.js';

/** Several processes of the app on the same servers. All of them end when this process ends, even if it is killed. */
export interface Branches extends Servers {
  readonly instances: readonly Instance[];
  readonly database: Database;
}

export interface BranchOptions extends Partial<Omit<ServersOptions, 'shared'>> {
  readonly count: number;
  readonly config: Config;
  /** The program of an instance. */
  readonly program?: string;
  readonly env?: Readonly<Record<string, string>>;
}

const PROGRAM = fileURLToPath(new URL('../main.js', import.meta.url));

export async function openBranches(options: BranchOptions): Promise<Branches> {
  const { count, program = PROGRAM, env = {}, keep = false, onStep = () => {} } = options;
  const toClose = new ToClose();
  try {
    const servers = await openServers(options.config, { shared: true, keep, onStep });
    toClose.add(() => servers.close());
    onStep(`Starting ${count} instances of the app …`);
    const { config } = servers;
    const database = new PostgresDatabase(config.databaseUrl!);
    toClose.add(() => database.close());
    const start = async () => {
      const instance = await startInstance(program, { ...environmentOf(config), ...env });
      toClose.add(() => instance.stop());
      return instance;
    };
    const starting = Array.from({ length: count }, start);
    await Promise.allSettled(starting);
    const instances = await Promise.all(starting);
    return { ...servers, instances, database, close: () => toClose.close() };
  } catch (error) {
    await toClose.close();
    throw error;
  }
}

/** The variables that tell an instance where its servers are. */
function environmentOf(config: Config): Record<string, string> {
  const names = Object.keys(SERVERS) as ServerName[];
  const urls = names.map((name) => [SERVERS[name].variable, config[name] ?? ''] as const);
  return { ...Object.fromEntries(urls), STORE: config.store };
}
