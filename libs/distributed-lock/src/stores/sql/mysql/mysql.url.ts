import type { ConnectionOptions } from 'mysql2';
import {
  decoded,
  TRUE_OR_FALSE,
  readParameters,
  refused,
  ANY_TEXT,
  TLS_PARAMETERS,
  WHOLE_NUMBER,
  type UrlParameter,
  type UrlParameters,
} from '../../common/connection/url-parameters.js';

const STORE = 'mysqlStore';
const TLS_ADVICE = 'For TLS write ?ssl=true, or give the option ssl: { ca }.';
const OWN = 'Leave it out: mysqlStore sets up its connection itself.';
const TIMEOUT = 'Leave it out, and give mysqlStore the option commandTimeoutMs.';
const POOL = 'Leave it out: mysqlStore has one connection of its own.';
const PLACE = 'Write it in the URL: mysql://user:password@host:port/database.';

/** `true` stands for TLS with the authorities that Node trusts. mysql2 itself takes options in JSON, or the name of a profile. */
const SSL: UrlParameter = {
  takes: 'true, false, options of TLS in JSON as {"rejectUnauthorized":true}, or Amazon RDS',
  read: (text) => {
    const words = { true: {}, 1: {}, false: false, 0: false, 'Amazon RDS': 'Amazon RDS' };
    return Object.hasOwn(words, text) ? words[text as keyof typeof words] : jsonObject(text);
  },
};
const ATTRIBUTES: UrlParameter = { takes: 'an object in JSON', read: jsonObject };

/** What a URL may ask for. mysql2 prints other parameters and goes on without them. */
export const MYSQL_PARAMETERS: UrlParameters = {
  ...refused(TLS_ADVICE, ...TLS_PARAMETERS),
  ...refused(OWN, 'multipleStatements', 'namedPlaceholders', 'queryFormat', 'typeCast', 'trace', 'debug'),
  ...refused(OWN, 'rowsAsArray', 'nestTables', 'dateStrings', 'decimalNumbers', 'bigNumberStrings'),
  ...refused(OWN, 'supportBigNumbers', 'timezone', 'charset', 'charsetNumber', 'flags'),
  ...refused(OWN, 'enableKeepAlive', 'keepAliveInitialDelay'),
  ...refused(TIMEOUT, 'connectTimeout', 'connect_timeout', 'socket_timeout', 'timeout', 'acquireTimeout'),
  ...refused(POOL, 'connectionLimit', 'connection_limit', 'pool_timeout', 'waitForConnections', 'queueLimit'),
  ...refused(PLACE, 'host', 'port', 'user', 'password', 'database', 'db', 'schema'),
  ssl: SSL,
  socketPath: ANY_TEXT,
  localAddress: ANY_TEXT,
  compress: TRUE_OR_FALSE,
  insecureAuth: TRUE_OR_FALSE,
  enableCleartextPlugin: TRUE_OR_FALSE,
  password2: ANY_TEXT,
  password3: ANY_TEXT,
  passwordSha1: ANY_TEXT,
  connectAttributes: ATTRIBUTES,
  maxPreparedStatements: WHOLE_NUMBER,
};

/** @throws LockConfigurationError for a part that cannot be followed */
export function optionsIn(url: URL): ConnectionOptions {
  const { hostname, port, pathname, username, password, search } = url;
  return {
    host: decoded(STORE, hostname.replace(/^\[(.*)\]$/, '$1')),
    ...(port !== '' && { port: Number(port) }),
    user: decoded(STORE, username),
    password: decoded(STORE, password),
    database: decoded(STORE, pathname.slice(1)),
    ...(readParameters(STORE, search, MYSQL_PARAMETERS) as ConnectionOptions),
  };
}

function jsonObject(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
