import type { Socket } from 'node:net';
import type { Client, ClientConfig } from 'pg';
import { clientPackage } from '../connection/client-package.js';
import { watchFirstBytes, type OwnProtocol } from '../connection/kept-connection.js';
import { KEEP_ALIVE_MS } from '../connection/timing.js';
import { readOptions } from '../connection/url-parameters.js';
import { isPool, type PostgresConfig, type PostgresPool } from './target.js';

const POSTGRES: OwnProtocol = {
  server: 'PostgreSQL',
  // The server answers a request for TLS with N or S, and the startup message with R or E.
  reply: /^[NSRE]/,
  tls: 'add ?sslmode=verify-full to the URL, or give the option ssl',
};

export interface OwnTarget {
  readonly target: string | PostgresConfig | PostgresPool;
  /** How the server shows this connection, unless the application's options set another name. */
  readonly connectionName: string;
}

/**
 * Connects a new client of pg, with the settings that locks need. Sets no timeout in the startup message, because poolers reject
 * that.
 *
 * @param setUp sends the first statements. The connection counts as open when its promise resolves
 */
export async function connectOwn<Opened>(
  own: OwnTarget,
  { signal, onLost }: WantedConnection,
  setUp: (client: Client) => Promise<Opened>,
): Promise<Opened> {
  const pg = await clientPackage<Pg>(() => import('pg'), NO_PG);
  signal.throwIfAborted();
  const { target } = own;
  const client = newClient(pg, target, configOf(own));
  // Without a listener for `error`, Node would end the process on a lost connection.
  client.on('error', onLost);
  client.on('end', () => onLost(new Error('the connection was closed')));
  signal.addEventListener('abort', () => destroy(client));
  const strange = new Promise<never>((_, reject) => watchFirstBytes(streamOf(client), POSTGRES, reject));
  try {
    const connected = client.connect().then(() => setUpAsPool(target, client));
    return await Promise.race([connected.then(() => setUp(client)), strange]);
  } catch (error) {
    destroy(client);
    throw error;
  }
}

interface WantedConnection {
  /** When it aborts, the socket is closed, even if the server does not react. The promise of `connectOwn` may then never settle. */
  readonly signal: AbortSignal;
  readonly onLost: (error: unknown) => void;
}

/** Ends the client at once, even if the server does not react. If the server is reachable, it learns that the client leaves. */
export function destroy(client: Client): void {
  const stream = streamOf(client);
  client.end().catch(() => undefined);
  setImmediate(() => stream.destroy());
}

function streamOf(client: Client): Socket {
  return (client as unknown as { readonly connection: { readonly stream: Socket } }).connection.stream;
}

/** The options of the next connection. Read anew for each connection, because the application may have changed the password. */
function configOf({ target, connectionName }: OwnTarget): ClientConfig {
  return {
    application_name: connectionName,
    ...readOptions(givenConfig(target)),
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    // Get all values as texts: the application may have registered type parsers, which would change them.
    types: { getTypeParser: () => (value: string) => value } as unknown as NonNullable<ClientConfig['types']>,
    statement_timeout: false,
    query_timeout: undefined,
    lock_timeout: undefined,
  } as ClientConfig;
}

function givenConfig(target: OwnTarget['target']): object {
  if (typeof target === 'string') return { connectionString: target };
  return isPool(target) ? target.options : target;
}

/**
 * Options by which an application prepares the new clients of its pool: their class, and functions that the pool calls with each
 * of them.
 */
interface PoolSettings {
  readonly Client?: new (config: ClientConfig) => Client;
  readonly onConnect?: (client: Client) => unknown;
  readonly verify?: (client: Client, done: (error?: Error) => void) => void;
}

/** Makes a client of the pool's class. Uses pg's own class in place of `pg-native`, whose socket is not accessible. */
function newClient(pg: Pg, target: OwnTarget['target'], config: ClientConfig): Client {
  const { Client: Given } =
    typeof target === 'object' && isPool(target) ? (target.options as PoolSettings) : {};
  const client = Given && new Given(config);
  return client && 'connection' in client ? client : new pg.Client(config);
}

/**
 * Calls the functions that the application's pool calls with each new client. They may choose a role or a `search_path`, without
 * which the store would find another table.
 */
async function setUpAsPool(target: OwnTarget['target'], client: Client): Promise<void> {
  if (typeof target === 'string' || !isPool(target)) return;
  const { onConnect, verify } = target.options as PoolSettings;
  await onConnect?.(client);
  for (const listener of target.listeners?.('connect') ?? []) {
    await (listener as (this: object, client: Client) => unknown).call(target, client);
  }
  if (verify) {
    await new Promise<void>((resolve, reject) => {
      verify(client, (error) => (error ? reject(error) : resolve()));
    });
  }
}

type Pg = typeof import('pg');

const NO_PG =
  'postgresStore needs the package pg, which it does not find, unless it is given PGlite or { query }: npm install pg. In a bundle leave pg outside of it, and install it beside the bundle.';
