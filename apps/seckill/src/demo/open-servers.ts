import { randomBytes } from 'node:crypto';
import type { Config } from '../config.js';
import { checkServers } from '../preflight/check-servers.js';
import { aNamed, SERVERS, type ServerName } from '../stores/servers.js';
import { serversOf, STORES } from '../stores/stores.js';
import { isDatabase, ownSchema } from './own-schema.js';
import type { OwnServer } from './own-servers.js';
import { ToClose } from './to-close.js';

/** The servers that a sale runs on: those that the environment names, and own ones in place of the others. */
export interface Servers {
  /** With the addresses of all of them. */
  readonly config: Config;
  /** The server of the locks; `undefined` when it was not started here. */
  readonly lockServer: OwnServer | undefined;
  close(): Promise<void>;
}

export interface ServersOptions {
  /** Whether several processes sell. A single one has an embedded Postgres in its memory. */
  readonly shared: boolean;
  /** Whether the tables in a database of the user's outlast the sale. */
  readonly keep: boolean;
  /** Called with a description before each slow step. */
  readonly onStep: (step: string) => void;
}

const SCHEMA = 'flash_sale';

/**
 * @throws Error within seconds when a server that the environment names cannot be used, and one that says what to do when
 * a server can neither be found nor fetched
 */
export async function openServers(given: Config, { shared, keep, onStep }: ServersOptions): Promise<Servers> {
  const toClose = new ToClose();
  const urls: Partial<Record<ServerName, string>> = {};
  let lockServer: OwnServer | undefined;
  await checkServers(given);
  try {
    const { server } = STORES[given.store];
    if (server !== undefined && given[server] === undefined) {
      onStep(
        `Starting ${aNamed(SERVERS[server].ownProduct)} server (the first time it may have to be fetched) …`,
      );
      const { startServer } = await import('./own-servers.js');
      const own = await startServer(server);
      toClose.add(() => own.stop());
      urls[server] = own.url;
      lockServer = own;
    }
    for (const name of serversOf(given.store).filter(isDatabase)) {
      const url = given[name];
      if (url === undefined) continue;
      const schema = keep ? SCHEMA : `${SCHEMA}_${randomBytes(4).toString('hex')}`;
      onStep(describeSchema(schema, name, keep));
      const own = ownSchema(name, url, schema);
      if (!keep) toClose.add(() => own.drop());
      await own.create();
      urls[name] = own.url;
    }
    if (shared && given.databaseUrl === undefined && urls.databaseUrl === undefined) {
      onStep('Starting an embedded Postgres …');
      const { startDatabaseServer } = await import('./database-server.js');
      const embedded = await startDatabaseServer();
      toClose.add(() => embedded.close());
      urls.databaseUrl = embedded.url;
    }
    return { config: { ...given, ...urls }, lockServer, close: () => toClose.close() };
  } catch (error) {
    await toClose.close();
    throw error;
  }
}

function describeSchema(schema: string, name: ServerName, keep: boolean): string {
  const { product, variable } = SERVERS[name];
  const fate = keep ? 'which stays there afterwards' : 'which is dropped at the end';
  return `All tables are in the schema ${schema} of the ${product} of ${variable}, ${fate} …`;
}
