import { describeGiven } from '../../options/describe-given.js';
import { LockConfigurationError } from '../../port/lock.errors.js';
import { refusedTarget } from '../common/connection/target-checks.js';
import {
  refuseParameters,
  refused,
  TLS_PARAMETERS,
  type UrlParameters,
} from '../common/connection/url-parameters.js';
import type { Chance } from '../../time/chance.js';
import { serverAddress, type Server } from './client/connection.js';

/** Servers as `host:port`, with commas between them and a path behind the last, or as a list. */
export type ZookeeperTarget = string | readonly string[];

interface Ensemble {
  readonly servers: readonly Server[];
  /** The path that the servers' connect string ends with; '' without one. */
  readonly chroot: string;
}

const DEFAULT_PORT = 2181;
const NEEDED =
  "zookeeperStore takes the servers of one ensemble, as 'zk1:2181,zk2:2181,zk3:2181/app' or as a list of them";
const SERVER = /^(?:\[([\da-f:.%]+)\]|([^\s:/@[\]]+))(?::(\d{1,5}))?$/i;

/** A connect string has no parameters, and ZooKeeper itself would take them for a part of the path behind the servers. */
const PARAMETERS: UrlParameters = refused('For TLS give zookeeperStore the option tls.', ...TLS_PARAMETERS);

/** @throws LockConfigurationError for what names no server */
export function ensembleOf(target: unknown): Ensemble {
  const texts = typeof target === 'string' ? [target] : target;
  if (!Array.isArray(texts) || texts.length === 0 || !texts.every((text) => typeof text === 'string')) {
    throw refusedTarget(NEEDED, target);
  }
  for (const text of texts as readonly string[]) refuseParameters('zookeeperStore', text, PARAMETERS);
  const [, list = '', chroot = ''] = /^([^/]*)(\/.*)?$/s.exec(texts.join(',')) ?? [];
  const servers = list.split(',').map((text) => serverOf(text.trim()));
  if (chroot !== '' && chroot !== '/') checkPath('The path behind the servers', chroot);
  return { servers, chroot: chroot === '/' ? '' : chroot };
}

/** Hosts and ports for messages. */
export function addressesOf({ servers, chroot }: Ensemble): string {
  return `${servers.map(serverAddress).join(',')}${chroot}`;
}

/** The servers in a random order, so that the clients of an ensemble spread over them. */
export function shuffled<It>(servers: readonly It[], chance: Chance): readonly It[] {
  const all = [...servers];
  for (let i = all.length - 1; i > 0; i--) {
    const j = Math.floor(chance.random() * (i + 1));
    [all[i], all[j]] = [all[j] as It, all[i] as It];
  }
  return all;
}

/** @throws LockConfigurationError unless it is a path of znodes */
export function checkPath(what: string, path: unknown): asserts path is string {
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
  // A text that is no host and port may be a URL with a password.
  throw new LockConfigurationError(`${NEEDED}; one of them is no host and port, as zk1:2181.`);
}
