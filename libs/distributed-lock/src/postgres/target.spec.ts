import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { followedOrRefused } from '../../../../test/support/followed-or-refused.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { checkPostgresTarget, connectOwn, POSTGRES_PARAMETERS } from './target.js';

/** The options that pg reads from the URL, once the store has taken it. */
function optionsOf(query: string): object {
  const connectionString = `postgres://u@h/app?${query}`;
  checkPostgresTarget(connectionString);
  return pgConnectionString.parse(connectionString);
}

const { default: pgConnectionString } = (await import('pg-connection-string')) as unknown as {
  default: { parse(url: string): object };
};
/** A file that exists: pg reads it. */
const FILE = new URL(import.meta.url).pathname;

describe('postgresStore', () => {
  followedOrRefused({
    parameters: POSTGRES_PARAMETERS,
    values: {
      port: '5433',
      client_encoding: 'UTF8',
      ssl: 'no-verify',
      sslmode: 'verify-full',
      sslrootcert: FILE,
      sslcert: FILE,
      sslkey: FILE,
      sslnegotiation: 'direct',
      uselibpqcompat: 'true',
    },
    optionsOf,
  });

  it.each(['require', 'verify-ca', 'verify-full', 'no-verify', 'prefer'])(
    'speaks TLS for sslmode=%s',
    (mode) => {
      const url = `postgres://u@h/app?sslmode=${mode}`;
      checkPostgresTarget(url);
      expect(new pg.Client(url)).toHaveProperty('ssl', expect.any(Object));
    },
  );

  it.each([
    ['an sslmode that there is not', '?sslmode=required', 'It takes disable, prefer'],
    ['an empty sslmode', '?sslmode=', 'It takes disable, prefer'],
    ['ssl as another word', '?ssl=yes', 'It takes '],
    ['TLS switched on and off', '?ssl=true&sslmode=disable', 'both ssl and sslmode'],
    ['a certificate and no TLS', '?sslmode=disable&sslrootcert=a', 'switches TLS off'],
    ['the authorities of the system', '?sslrootcert=system', 'leave it out'],
    ['another name for TLS', '?tls=true', 'For TLS write ?sslmode=verify-full'],
    ['a name in other letters', '?SSLMODE=require', 'Did you mean sslmode?'],
    ['the schema of Prisma', '?schema=app', "{ table: 'app.nest_lock' }"],
    ['a % that is no text', '%zz', 'Write a % as %25'],
    ['a cut password', '?hunter2@h', 'encodeURIComponent'],
    ['a #', '#hunter2', 'must have as %23'],
  ])('refuses a URL with %s', (_, end, message) => {
    const make = () => checkPostgresTarget(`postgres://u:hunter2@h/app${end}`);
    expect(make).toThrow(LockConfigurationError);
    expect(make).toThrow(message);
    expect(make).not.toThrow('hunter2');
  });

  it.each<[string, object, string]>([
    ['sslmode, which pg reads in a URL only', { host: 'h', sslmode: 'require' }, 'the option "sslmode"'],
    ['tls', { host: 'h', tls: true }, 'the option "tls"'],
    ['schema', { host: 'h', schema: 'app' }, 'the option "schema"'],
    ['a URL with a schema', { connectionString: 'postgres://h/app?schema=app' }, 'the parameter "schema"'],
    ['two kinds of TLS', { connectionString: 'postgres://h/a?sslmode=disable', ssl: true }, 'in preference'],
  ])('refuses options with %s', (_, options, message) => {
    expect(() => checkPostgresTarget(options)).toThrow(message);
  });

  it('takes what the pool and the driver know, and options that are left out', () => {
    const targets = [
      { host: 'h', max: 5, ssl: { ca: 'x' }, sslmode: undefined, tls: false },
      { connectionString: 'postgres://h/app?application_name=a', ssl: true },
    ];
    for (const target of targets) expect(() => checkPostgresTarget(target)).not.toThrow();
  });
});

describe('a connection of the PostgreSQL store', () => {
  const closing: (() => unknown)[] = [];
  afterEach(() => closing.splice(0).forEach((close) => close()));

  const setUp = () => Promise.reject(new Error('it was connected'));
  const connect = (target: string, signal: AbortSignal) =>
    connectOwn({ target, connectionName: 'locks' }, { signal, onLost: () => undefined }, setUp);

  /** As a frozen server: its system accepts the connection, and no byte comes back. */
  async function silentServer() {
    const server = createServer();
    const closed = once(server, 'connection').then(([socket]) => once((socket as Socket).resume(), 'close'));
    closing.push(() => server.close());
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return { url: `postgres://a@127.0.0.1:${(server.address() as AddressInfo).port}/b`, closed };
  }

  it('to a server that never replies leaves no socket when its time is over', async () => {
    const { url, closed } = await silentServer();
    connect(url, AbortSignal.timeout(50)).catch(() => undefined);
    await expect(closed).resolves.toBeDefined();
  });

  it('is not begun after its time', async () => {
    const { url } = await silentServer();
    await expect(connect(url, AbortSignal.abort('closed'))).rejects.toBe('closed');
  });
});
