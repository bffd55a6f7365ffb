import type { ConnectionOptions } from 'node:tls';
import { type Chance, systemChance } from '../common/clock.js';
import { checkCommandTimeout, targetError } from '../connection/checks.js';
import { refused, readParameters, TLS_PARAMETERS, type UrlParameters } from '../connection/url-parameters.js';
import { DocumentStore } from '../document/store.js';
import type { LockStoreFactory } from '../port/lock-store.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { checkOptions, describeGiven, type OptionRules } from '../port/option-checks.js';
import { SessionRegister } from '../session/register.js';
import { ZookeeperBackend } from './backend.js';
import { type Server, serverAddress } from './client/connection.js';
import { LockPaths } from './znodes.js';

const OPTION_NAMES: OptionRules<ZookeeperStoreOptions> = {
  root: true,
  auth: true,
  tls: true,
  commandTimeoutMs: true,
};
export const ZOOKEEPER_DEFAULTS = { root: '/nest-lock', commandTimeoutMs: 1000 } as const;

/**
 * Stores locks in ZooKeeper, 3.5 or later, with one znode for each key. Each store has one session, which is at least as long as
 * `watchdogTimeoutMs`. If the process dies, its locks end with that session.
 *
 * @param target the servers of one ensemble
 * @throws LockConfigurationError for a target that names no server, and for options that would have no effect
 * @example
 * ```ts
 * import { DistributedLockModule } from 'nestjs-distributed-lock';
 * import { zookeeperStore } from 'nestjs-distributed-lock/zookeeper';
 *
 * DistributedLockModule.forRoot({ store: zookeeperStore('localhost:2181') });
 * ```
 */
export function zookeeperStore(
  target: ZookeeperTarget,
  options: ZookeeperStoreOptions = {},
): LockStoreFactory {
  const ensemble = ensembleOf(target);
  checkOptions('zookeeperStore', options, OPTION_NAMES);
  const { root = ZOOKEEPER_DEFAULTS.root, commandTimeoutMs = ZOOKEEPER_DEFAULTS.commandTimeoutMs } = options;
  const { auth, tls } = options;
  checkPath('root', root);
  if (auth !== undefined) checkAuth(auth);
  if (tls !== undefined && (typeof tls !== 'object' || tls === null)) {
    throw new LockConfigurationError(`tls must be options of tls.connect; it is ${describeGiven(tls)}.`);
  }
  return {
    create(context) {
      checkCommandTimeout(commandTimeoutMs, context);
      const { clock, chance = systemChance, watchdogTimeoutMs: sessionMs } = context;
      const clientId = chance.uuid();
      const backend = new ZookeeperBackend(
        {
          clock,
          chance,
          clientId,
          paths: new LockPaths(ensemble.chroot + root),
          servers: shuffled(ensemble.servers, chance),
          tls,
          auth,
          sessionMs,
          commandTimeoutMs,
        },
        context,
        ensemble.address,
      );
      return new DocumentStore(
        { name: 'zookeeper', clientId },
        new SessionRegister(backend, context),
        context,
      );
    },
  };
}

/** Options of `zookeeperStore`. Times are in ms. */
export interface ZookeeperStoreOptions {
  /** The znode under which the locks are stored; default `/nest-lock`. Created on first use. */
  readonly root?: string;
  /**
   * `user:password` for ZooKeeper's scheme `digest`. Then only clients with the same credentials can read or change the locks.
   * Without it, every client of the servers can.
   */
  readonly auth?: string;
  /** Options of `tls.connect` for a secure port of the servers. */
  readonly tls?: ConnectionOptions;
  /**
   * The timeout of one request, in ms; default 1000. After it the store gives the connection up and tries another server. It
   * bounds how long a failure stays undetected, and how late a call settles after its `waitMs`. At most a third of
   * `watchdogTimeoutMs`.
   */
  readonly commandTimeoutMs?: number;
}

function checkAuth(auth: unknown): void {
  if (typeof auth === 'string' && /^[^:]+:./s.test(auth)) return;
  throw new LockConfigurationError(
    `auth must be 'user:password', as for the scheme digest; it was given ${typeof auth === 'string' ? 'another text' : describeGiven(auth)}.`,
  );
}

/** A ZooKeeper connect string, `host:port,host:port/path`, or the servers as a list. */
export type ZookeeperTarget = string | readonly string[];

interface Ensemble {
  readonly servers: readonly Server[];
  /** The servers and the path as text for messages. */
  readonly address: string;
  /** The path at the end of the connect string, under which all znodes of this client lie; '' if there is none. */
  readonly chroot: string;
}

const DEFAULT_PORT = 2181;
const NEEDED =
  "zookeeperStore takes the servers of one ensemble, as 'zk1:2181,zk2:2181,zk3:2181/app' or as a list of them";
const SERVER = /^(?:\[([\da-f:.%]+)\]|([^\s:/@[\]]+))(?::(\d{1,5}))?$/i;

/** A connect string has no parameters: ZooKeeper would take them for part of the path behind the servers. */
const PARAMETERS: UrlParameters = refused('For TLS give zookeeperStore the option tls.', ...TLS_PARAMETERS);

/**
 * Parses a connect string or a list of servers.
 *
 * @throws LockConfigurationError if it names no server
 */
export function ensembleOf(target: unknown): Ensemble {
  const texts = typeof target === 'string' ? [target] : target;
  if (!Array.isArray(texts) || texts.length === 0 || !texts.every((text) => typeof text === 'string')) {
    throw targetError(NEEDED, target);
  }
  for (const text of texts as readonly string[])
    readParameters('zookeeperStore', text.replace(/^[^?]*\??/, ''), PARAMETERS);
  const [, list = '', path = ''] = /^([^/]*)(\/.*)?$/s.exec(texts.join(',')) ?? [];
  const servers = list.split(',').map((text) => serverOf(text.trim()));
  const chroot = path === '/' ? '' : path;
  if (chroot !== '') checkPath('The path behind the servers', chroot);
  return { servers, address: `${servers.map(serverAddress).join(',')}${chroot}`, chroot };
}

/** Shuffles the servers, so that the clients of an ensemble spread over them. */
export function shuffled<It>(servers: readonly It[], chance: Chance): readonly It[] {
  const all = [...servers];
  for (let i = all.length - 1; i > 0; i--) {
    const j = Math.floor(chance.random() * (i + 1));
    [all[i], all[j]] = [all[j] as It, all[i] as It];
  }
  return all;
}

/** @throws LockConfigurationError unless `path` is an absolute path of a znode */
function checkPath(what: string, path: unknown): asserts path is string {
  const isPath =
    typeof path === 'string' &&
    /^(\/(?!\.{1,2}(?:\/|$))[^/\p{Cc}\p{Cs}\p{Co}\u{fff0}-\u{10ffff}]+)+$/u.test(path);
  if (isPath && path !== '/zookeeper' && !path.startsWith('/zookeeper/')) return;
  throw new LockConfigurationError(
    `${what} must be a path of znodes, as /nest-lock, without a slash at its end and not under /zookeeper; it is ${typeof path === 'string' ? JSON.stringify(path) : describeGiven(path)}.`,
  );
}

function serverOf(text: string): Server {
  const [, ip6, name, digits] = SERVER.exec(text) ?? [];
  const host = ip6 ?? name;
  const port = digits === undefined ? DEFAULT_PORT : Number(digits);
  if (host !== undefined && port > 0 && port < 65536) return { host, port };
  // Do not quote the text: it may be a URL with a password.
  throw new LockConfigurationError(`${NEEDED}; one of them is no host and port, as zk1:2181.`);
}
