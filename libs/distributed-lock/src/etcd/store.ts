import { systemChance } from '../common/clock.js';
import { checkCommandTimeout, targetError } from '../connection/checks.js';
import { refused, readParameters, TLS_PARAMETERS, type UrlParameters } from '../connection/url-parameters.js';
import { DocumentStore } from '../document/store.js';
import type { LockStoreFactory } from '../port/lock-store.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { checkOptions, describeGiven, type OptionRules } from '../port/option-checks.js';
import { SessionRegister } from '../session/register.js';
import { EtcdBackend } from './backend.js';

export const ETCD_DEFAULTS = { root: 'nest-lock/', commandTimeoutMs: 1000 } as const;
const MAX_ROOT_BYTES = 255;

const OPTION_NAMES: OptionRules<EtcdStoreOptions> = {
  endpoints: true,
  root: true,
  tls: true,
  auth: true,
  commandTimeoutMs: true,
};

/**
 * Stores locks in etcd, 3.4 or later. Each process has one etcd lease, and its locks end with that lease if the process dies.
 *
 * @param endpointsOrOptions the URL of a member, a list of them, or the options with `endpoints`
 * @throws LockConfigurationError for endpoints that name no server, and for options that would have no effect
 * @example
 * ```ts
 * import { DistributedLockModule } from 'nestjs-distributed-lock';
 * import { etcdStore } from 'nestjs-distributed-lock/etcd';
 *
 * DistributedLockModule.forRoot({ store: etcdStore('http://localhost:2379') });
 * ```
 */
export function etcdStore(
  endpointsOrOptions: string | readonly string[] | EtcdStoreOptions,
  options: EtcdStoreOptions = {},
): LockStoreFactory {
  const all = optionsOf(endpointsOrOptions, options);
  checkOptions('etcdStore', all, OPTION_NAMES);
  const { root = ETCD_DEFAULTS.root, commandTimeoutMs = ETCD_DEFAULTS.commandTimeoutMs } = all;
  checkRoot(root);
  const target = targetOf(all.endpoints, all);
  return {
    create(context) {
      checkCommandTimeout(commandTimeoutMs, context);
      const { chance = systemChance } = context;
      const clientId = chance.uuid();
      const backend = new EtcdBackend(target, { ...context, chance, clientId, root, commandTimeoutMs });
      return new DocumentStore({ name: 'etcd', clientId }, new SessionRegister(backend, context), context);
    },
  };
}

/** Options of `etcdStore`. Times are in ms. */
export interface EtcdStoreOptions {
  /** The members of one cluster, as URLs or `host:port`. Required unless they are the first argument. */
  readonly endpoints?: string | readonly string[];
  /** All keys of this store begin with this text; default `nest-lock/`. */
  readonly root?: string;
  /** TLS certificates. Needs endpoints with `https:`. */
  readonly tls?: EtcdTls;
  /** User and password, for a cluster with authentication. */
  readonly auth?: EtcdAuth;
  /**
   * The timeout of one request, in ms; default 1000. After it the store gives the member up and connects to the next one. It
   * bounds how long a failure stays undetected, and how late a call settles after its `waitMs`. At most a third of
   * `watchdogTimeoutMs`.
   */
  readonly commandTimeoutMs?: number;
}

function optionsOf(given: unknown, options: EtcdStoreOptions): EtcdStoreOptions {
  checkOptions('etcdStore', options, OPTION_NAMES);
  if (typeof given === 'object' && given !== null && !Array.isArray(given)) {
    return { ...(given as EtcdStoreOptions), ...options };
  }
  if (options.endpoints !== undefined) {
    throw new LockConfigurationError('etcdStore was given endpoints twice. Leave out the option endpoints.');
  }
  return { ...options, endpoints: given as string };
}

function checkRoot(root: unknown): void {
  const isText = typeof root === 'string' && root !== '' && !/\p{Surrogate}/u.test(root);
  if (isText && Buffer.byteLength(root) <= MAX_ROOT_BYTES) return;
  throw new LockConfigurationError(
    `root must be a text of 1 to ${MAX_ROOT_BYTES} bytes, as ${ETCD_DEFAULTS.root}; it is ${typeof root === 'string' ? JSON.stringify(root.slice(0, 40)) : describeGiven(root)}.`,
  );
}

/** Where to connect, and with which certificates and user. */
export interface EtcdTarget {
  /** The members, each as `host:port`. */
  readonly endpoints: readonly string[];
  /** Absent for connections without TLS. */
  readonly tls?: EtcdTls;
  readonly auth?: EtcdAuth;
}

/** TLS certificates and keys, as strings or buffers in PEM format. */
export interface EtcdTls {
  /** The certificate authorities to trust; default: those of Node. */
  readonly ca?: string | Buffer;
  /** The certificate of this client, if the servers require one. Needs `key`. */
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  /** The host name in the servers' certificates, if it differs from their address. */
  readonly servername?: string;
}

export interface EtcdAuth {
  readonly user: string;
  readonly password: string;
}

const NEEDED = 'etcdStore takes the URL of a member, a list of them, or options with endpoints';
const DEFAULT_PORT = 2379;
const TLS_NAMES: OptionRules<EtcdTls> = { ca: true, cert: true, key: true, servername: true };
const AUTH_NAMES: OptionRules<EtcdAuth> = { user: true, password: true };
const HOST_AND_PORT = /^(\[[\da-f:.]+\]|[^\s:/?#@[\]]+)(:\d+)?$/i;

/**
 * Parses and checks the endpoints and the options. Error messages do not quote the input, because it may contain a password.
 *
 * @throws LockConfigurationError for endpoints that name no server, and for options that would have no effect
 */
export function targetOf(
  endpoints: unknown,
  { tls, auth }: Pick<EtcdStoreOptions, 'tls' | 'auth'>,
): EtcdTarget {
  const list: readonly unknown[] = Array.isArray(endpoints) ? endpoints : [endpoints];
  if (list.length === 0) throw new LockConfigurationError(`${NEEDED}; it was given an empty list.`);
  const members = list.map(memberIn);
  if (members.some(({ isTls }) => isTls !== members[0]?.isTls)) {
    throw new LockConfigurationError(`${NEEDED}; some of the endpoints are https: and others are not.`);
  }
  const isTls = members[0]?.isTls === true;
  if (tls !== undefined) checkTls(tls, isTls);
  if (auth !== undefined) checkAuth(auth);
  return {
    endpoints: [...new Set(members.map(({ address }) => address))],
    ...(isTls && { tls: tls ?? {} }),
    ...(auth && { auth }),
  };
}

/** An etcd URL takes no parameters. A parameter that somebody tries is refused with the option of the store to use instead. */
const PARAMETERS: UrlParameters = refused(
  'For TLS write the endpoint as https://host:port, and give etcdStore the option tls: { ca, cert, key }.',
  ...TLS_PARAMETERS,
);

function memberIn(endpoint: unknown): { readonly address: string; readonly isTls: boolean } {
  if (typeof endpoint !== 'string' || endpoint.trim() === '') {
    throw targetError(NEEDED, endpoint);
  }
  const [, scheme, rest = endpoint] = /^([a-z][\w+.-]*):\/\/(.*)$/is.exec(endpoint) ?? [];
  if (scheme !== undefined && !/^https?$/i.test(scheme)) {
    throw new LockConfigurationError(
      `${NEEDED}; the scheme of an endpoint is ${scheme}:, not http: or https:.`,
    );
  }
  if (rest.includes('@')) {
    throw new LockConfigurationError(
      `${NEEDED}; an endpoint has a user or a password in it. Give them as auth: { user, password }.`,
    );
  }
  readParameters('etcdStore', rest.replace(/^[^?]*\??/, ''), PARAMETERS);
  const [, host, port = `:${DEFAULT_PORT}`] = HOST_AND_PORT.exec(rest.replace(/\/$/, '')) ?? [];
  if (host === undefined || Number(port.slice(1)) > 65_535) {
    throw new LockConfigurationError(
      `${NEEDED}; an endpoint is neither a URL as http://host:${DEFAULT_PORT} nor host:port.`,
    );
  }
  return { address: host + port, isTls: scheme?.toLowerCase() === 'https' };
}

function checkTls(tls: EtcdTls, isTls: boolean): void {
  checkOptions('tls', tls, TLS_NAMES);
  if (!isTls) {
    throw new LockConfigurationError(
      'tls does nothing for endpoints without TLS. Write them as https://host:port.',
    );
  }
  if ((tls.cert === undefined) !== (tls.key === undefined)) {
    throw new LockConfigurationError('tls has one of cert and key without the other. Give both, or neither.');
  }
  for (const name of ['ca', 'cert', 'key'] as const) {
    const pem: unknown = tls[name];
    const isPem = Buffer.isBuffer(pem) || (typeof pem === 'string' && pem.includes('-----BEGIN'));
    if (pem === undefined || isPem) continue;
    throw new LockConfigurationError(
      `tls.${name} must be the content of a PEM file, as a text or a buffer; it is ${describeGiven(pem)}${typeof pem === 'string' ? ' without a PEM block' : ''}.`,
    );
  }
}

function checkAuth(auth: EtcdAuth): void {
  checkOptions('auth', auth, AUTH_NAMES);
  for (const name of ['user', 'password'] as const) {
    const text: unknown = auth[name];
    if (typeof text === 'string' && text !== '') continue;
    throw new LockConfigurationError(`auth.${name} must be a text; it is ${describeGiven(text)}.`);
  }
}
