import { LockConfigurationError } from '../../../port/lock.errors.js';
import {
  decoded,
  oneOfTexts,
  readParameters,
  refused,
  refuseOtherTlsNames,
  ANY_TEXT,
  TLS_PARAMETERS,
  type UrlParameters,
} from '../../common/connection/url-parameters.js';

const STORE = 'postgresStore';
const TLS =
  'For TLS write ?sslmode=verify-full, with sslrootcert, sslcert or sslkey where they are needed, or give the option ssl.';
const SCHEMA = "Give postgresStore the table with its schema: { table: 'app.nest_lock' }.";
const TIMEOUT = 'Leave it out, and give postgresStore the option commandTimeoutMs.';
const POOL = 'Leave it out: postgresStore opens two connections of its own, and finds a pooler by itself.';
const PATH = 'Write it as the path of the URL: postgres://user@host/database.';
const OWN = 'Leave it out: postgresStore sets up its connections itself.';

/** What a URL may ask for. pg takes most other parameters without a word. */
export const POSTGRES_PARAMETERS: UrlParameters = {
  ...refused(TLS, ...TLS_PARAMETERS),
  ...refused(SCHEMA, 'schema', 'currentSchema', 'search_path', 'searchPath'),
  ...refused(TIMEOUT, 'statement_timeout', 'query_timeout', 'lock_timeout', 'socket_timeout'),
  ...refused(TIMEOUT, 'connect_timeout', 'connectTimeout', 'connectionTimeoutMillis'),
  ...refused(TIMEOUT, 'idle_in_transaction_session_timeout'),
  ...refused(POOL, 'pgbouncer', 'connection_limit', 'pool_timeout', 'pool_size', 'max'),
  ...refused(POOL, 'statement_cache_size'),
  ...refused(PATH, 'dbname', 'database', 'db'),
  ...refused(OWN, 'binary', 'types', 'replication', 'keepAlive', 'keepalives', 'keepalives_idle', 'pipeline'),
  ...refused('Locks need the primary: give its address.', 'target_session_attrs', 'load_balance_hosts'),
  user: ANY_TEXT,
  password: ANY_TEXT,
  host: ANY_TEXT,
  port: { takes: 'a port', read: (text) => (/^\d{1,5}$/.test(text) ? text : undefined) },
  application_name: ANY_TEXT,
  fallback_application_name: ANY_TEXT,
  options: ANY_TEXT,
  client_encoding: oneOfTexts({ utf8: 'utf8', UTF8: 'UTF8', 'utf-8': 'utf-8', 'UTF-8': 'UTF-8' }),
  ssl: sameTextOf('true', '1', 'false', '0', 'no-verify'),
  sslmode: sameTextOf('disable', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify'),
  sslrootcert: file('sslrootcert'),
  sslcert: file('sslcert'),
  sslkey: file('sslkey'),
  sslnegotiation: sameTextOf('postgres', 'direct'),
  uselibpqcompat: sameTextOf('true', 'false'),
};

/** The names in options by which pg asks for TLS. */
const READ_BY_PG = ['ssl', 'sslnegotiation', 'key', 'cert', 'ca'];

/**
 * Refuses what pg would ignore, and what would be a connection in plain text where TLS is asked for.
 *
 * @throws LockConfigurationError
 */
export function checkPostgresUrl(url: string): void {
  const [whole] = url.split('#', 1) as [string];
  if (whole !== url) throw contradiction('it has a #, which a password must have as %23');
  const [place = '', query = ''] = splitOnce(url, '?');
  decoded(STORE, place);
  const { ssl, sslmode, sslrootcert, sslcert, sslkey } = readParameters(STORE, query, POSTGRES_PARAMETERS);
  if (ssl !== undefined && sslmode !== undefined) {
    throw contradiction('it has both ssl and sslmode. Write sslmode alone');
  }
  const isPlain = sslmode === 'disable' || ssl === 'false' || ssl === '0';
  if (isPlain && (sslrootcert ?? sslcert ?? sslkey) !== undefined) {
    throw contradiction('it has a certificate for TLS, and switches TLS off');
  }
}

/** @throws LockConfigurationError for options that pg would ignore, and for a URL and options that contradict each other */
export function checkPostgresOptions(options: object): void {
  refuseOtherTlsNames(STORE, options, {
    known: READ_BY_PG,
    instead: 'For TLS give the option ssl: true, or ssl: { ca }.',
  });
  const given = options as Readonly<Record<string, unknown>>;
  for (const name of ['schema', 'currentSchema', 'search_path', 'searchPath']) {
    if (given[name] !== undefined) {
      throw new LockConfigurationError(`${STORE} cannot follow the option "${name}". ${SCHEMA}`);
    }
  }
  const { connectionString, ssl } = given;
  if (typeof connectionString !== 'string') return;
  checkPostgresUrl(connectionString);
  if (ssl && /[?&]ssl/.test(connectionString)) {
    throw contradiction('pg takes its parameters for TLS in preference to the option ssl. Give one of them');
  }
}

/** pg reads the text itself. */
function sameTextOf(...texts: readonly string[]) {
  return oneOfTexts(Object.fromEntries(texts.map((text) => [text, text])));
}

function file(name: string) {
  const takes = `the path of a file${name === 'sslrootcert' ? '. For the authorities that Node trusts leave it out' : ''}`;
  return { takes, read: (text: string) => (text === '' || text === 'system' ? undefined : text) };
}

function splitOnce(text: string, mark: string): readonly string[] {
  const at = text.indexOf(mark);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

function contradiction(why: string): LockConfigurationError {
  return new LockConfigurationError(`${STORE} cannot follow its URL: ${why}.`);
}
