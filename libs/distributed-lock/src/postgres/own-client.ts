import type { Socket } from 'node:net';
import type { Client, ClientConfig } from 'pg';
import { clientPackage } from '../connection/client-package.js';
import { watchFirstBytes, type OwnProtocol } from '../connection/kept-connection.js';
import { KEEP_ALIVE_MS } from '../connection/timing.js';
import { readOptions } from '../connection/url-parameters.js';
import { isPool, type PostgresConfig, type PostgresPool } from './target.js';

const POSTGRES: OwnProtocol = {
  server: 'PostgreSQL',
  // N or S answers a request for TLS, and R or E answers the first message.
  reply: /^[NSRE]/,
  tls: 'add ?sslmode=verify-full to the URL, or give the option ssl',
};

export interface OwnTarget {
  readonly target: string | PostgresConfig | PostgresPool;
  /** The name of a connection whose options give it none. */
  readonly connectionName: string;
}

/**
 * Connects a new client of pg, with the settings on which locks depend. Sends no timeout in the startup message, because poolers
 * refuse that.
 *
 * @param setUp sends the first statements. When it resolves, the connection is open
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
  // An `error` event without a listener would end the process.
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
  /** When it aborts, the socket is ended, whatever the server does. The promise of `connectOwn` may then never settle. */
  readonly signal: AbortSignal;
  readonly onLost: (error: unknown) => void;
}

/** Ends the client at once, whatever the server does. If the server can be reached, it is told that the client leaves. */
export function destroy(client: Client): void {
  const stream = streamOf(client);
  client.end().catch(() => undefined);
  setImmediate(() => stream.destroy());
}

function streamOf(client: Client): Socket {
  return (client as unknown as { readonly connection: { readonly stream: Socket } }).connection.stream;
}

/** The options of the next connection. They are read anew for each one, because the application may have changed a password. */
function configOf({ target, connectionName }: OwnTarget): ClientConfig {
  return {
    application_name: connectionName,
    ...readOptions(givenConfig(target)),
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    // Take all values as texts, so that parsers of the application do not change them.
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

/** What an application may tell a pool about its new clients: their class, and functions that the pool calls with each of them. */
interface PoolSettings {
  readonly Client?: new (config: ClientConfig) => Client;
  readonly onConnect?: (client: Client) => unknown;
  readonly verify?: (client: Client, done: (error?: Error) => void) => void;
}

/** Makes a client of the pool's class, unless that is the native one, whose socket is out of reach. */
function newClient(pg: Pg, target: OwnTarget['target'], config: ClientConfig): Client {
  const { Client: Given } =
    typeof target === 'object' && isPool(target) ? (target.options as PoolSettings) : {};
  const client = Given && new Given(config);
  return client && 'connection' in client ? client : new pg.Client(config);
}

/** Calls what a pool calls with each new client. A listener may choose a role or a `search_path` there. */
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
