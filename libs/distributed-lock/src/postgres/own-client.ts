import type { Socket } from 'node:net';
import type { Client, ClientConfig } from 'pg';
import { clientPackage } from '../connection/client-package.js';
import { watchFirstBytes, type OwnProtocol } from '../connection/kept-connection.js';
import { KEEP_ALIVE_MS } from '../connection/timing.js';
import { readOptions } from '../connection/url-parameters.js';
import { isPool, type PostgresConfig, type PostgresPool } from './target.js';

const POSTGRES: OwnProtocol = {
  server: 'PostgreSQL',
  // To a request for TLS, and to the first message.
  reply: /^[NSRE]/,
  tls: 'add ?sslmode=verify-full to the URL, or give the option ssl',
};

export interface OwnTarget {
  readonly target: string | PostgresConfig | PostgresPool;
  /** For connections to which the target gives no name. */
  readonly connectionName: string;
}

/**
 * Connects a new client of pg, with settings of its own where locks depend on them. Sets no timeout by the startup
 * message, because poolers refuse that.
 *
 * @param setUp the first statements, after which the connection is open
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
  // Without a listener an error would end the process.
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
  /** Ends the socket, whatever the server does. The promise may never settle then. */
  readonly signal: AbortSignal;
  readonly onLost: (error: unknown) => void;
}

/** Ends the client at once, whatever the server does. Tells the server if it can be reached. */
export function destroy(client: Client): void {
  const stream = streamOf(client);
  client.end().catch(() => undefined);
  setImmediate(() => stream.destroy());
}

function streamOf(client: Client): Socket {
  return (client as unknown as { readonly connection: { readonly stream: Socket } }).connection.stream;
}

/** The options as they are now: the application may have changed a password. */
function configOf({ target, connectionName }: OwnTarget): ClientConfig {
  return {
    application_name: connectionName,
    ...readOptions(givenConfig(target)),
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    // All values come as texts, so that parsers of the application do not change them.
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

/** What a pool makes its clients of, and does with each new one, where the application has said so. */
interface PoolSettings {
  readonly Client?: new (config: ClientConfig) => Client;
  readonly onConnect?: (client: Client) => unknown;
  readonly verify?: (client: Client, done: (error?: Error) => void) => void;
}

/** A client of the class of the pool, unless that is the native one, whose socket is out of reach. */
function newClient(pg: Pg, target: OwnTarget['target'], config: ClientConfig): Client {
  const { Client: Given } =
    typeof target === 'object' && isPool(target) ? (target.options as PoolSettings) : {};
  const client = Given && new Given(config);
  return client && 'connection' in client ? client : new pg.Client(config);
}

/** A pool gives each new client to its listeners, which may choose a role or a `search_path` there. */
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
