import type { Socket } from 'node:net';
import type { Client, ClientConfig } from 'pg';
import { LockConfigurationError } from '../../../port/lock.errors.js';
import { watchFirstBytes, type OwnProtocol } from '../../common/connection/first-bytes.js';
import { KEEP_ALIVE_MS } from '../../common/connection/keep-alive.js';
import { isPool, type PostgresConfig, type PostgresPool } from './postgres.target.js';

const POSTGRES: OwnProtocol = {
  server: 'PostgreSQL',
  // To a request for TLS, and to the first message.
  reply: /^[NSRE]/,
  tls: 'add ?sslmode=verify-full to the URL, or give the option ssl',
};

export type OwnTarget = string | PostgresConfig | PostgresPool;

/** The target with a name for its connections, unless it has one. */
export function withConnectionName(target: OwnTarget, connectionName: string): PostgresConfig {
  const given = givenConfig(target);
  // A pool of pg hides its password from copies.
  return { application_name: connectionName, ...given, password: given.password } as PostgresConfig;
}

/**
 * Connects a new client of pg, with settings of its own where locks depend on them. Sets no timeout by the startup
 * message, because poolers refuse that.
 *
 * @param signal ends the socket, whatever the server does; the promise may never settle then
 * @param setUp the first statements, after which the connection is open
 */
export async function connectOwn<Opened>(
  target: OwnTarget,
  signal: AbortSignal,
  onLost: (error: unknown) => void,
  setUp: (client: Client) => Promise<Opened>,
): Promise<Opened> {
  const pg = await importPg();
  signal.throwIfAborted();
  const client = new pg.Client(configOf(target));
  // Without a listener an error would end the process.
  client.on('error', onLost);
  client.on('end', () => onLost(new Error('the connection was closed')));
  signal.addEventListener('abort', () => destroy(client));
  const strange = new Promise<never>((_, reject) => watchFirstBytes(streamOf(client), POSTGRES, reject));
  try {
    return await Promise.race([client.connect().then(() => setUp(client)), strange]);
  } catch (error) {
    destroy(client);
    throw error;
  }
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

function configOf(target: OwnTarget): ClientConfig {
  const given = givenConfig(target);
  return {
    ...given,
    // Hidden from copies, as above.
    password: given.password,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    // All values come as texts, so that parsers of the application do not change them.
    types: { getTypeParser: () => (value: string) => value } as unknown as NonNullable<ClientConfig['types']>,
    statement_timeout: false,
    query_timeout: undefined,
    lock_timeout: undefined,
  } as ClientConfig;
}

function givenConfig(target: OwnTarget): ClientConfig {
  if (typeof target === 'string') return { connectionString: target };
  return isPool(target) ? target.options : (target as ClientConfig);
}

type Pg = typeof import('pg');

/** pg is a CommonJS module. An import gives it as `default`, and the `require` of the CommonJS build gives it directly. */
async function importPg(): Promise<Pg> {
  try {
    const pg = (await import('pg')) as Pg & { readonly default?: Pg };
    return pg.default ?? pg;
  } catch (cause) {
    throw new LockConfigurationError(
      'postgresStore needs the package pg, unless it is given PGlite or { query }: npm install pg.',
      { cause },
    );
  }
}
