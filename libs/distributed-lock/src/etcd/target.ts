import type { ChannelCredentials } from '@grpc/grpc-js';
import { targetError } from '../connection/checks.js';
import { refused, readParameters, TLS_PARAMETERS, type UrlParameters } from '../connection/url-parameters.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { checkOptions, describeGiven, type OptionRules } from '../port/option-checks.js';
import type { Grpc } from './grpc.js';

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

interface Given {
  readonly tls?: EtcdTls | undefined;
  readonly auth?: EtcdAuth | undefined;
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
export function targetOf(endpoints: unknown, { tls, auth }: Given): EtcdTarget {
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

export function credentialsOf({ credentials }: Grpc, tls: EtcdTls | undefined): ChannelCredentials {
  if (!tls) return credentials.createInsecure();
  const [ca, key, cert] = [tls.ca, tls.key, tls.cert].map((pem) =>
    pem === undefined ? null : Buffer.from(pem as string),
  ) as [Buffer | null, Buffer | null, Buffer | null];
  return credentials.createSsl(ca, key, cert);
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
