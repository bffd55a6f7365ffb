import { LockConfigurationError } from '../port/lock.errors.js';
import { nearestName } from '../port/option-checks.js';

/**
 * How a store handles one parameter of its URL. It either follows the parameter: `read` parses the value, and returns `undefined`
 * for a value that is not what `takes` describes. Or it refuses the parameter, and the error gives the advice `instead`.
 */
type UrlParameter =
  | { readonly takes: string; readonly read: (text: string) => unknown }
  | { readonly instead: string };

/** The parameters that a store knows. It refuses all others, because a user would believe that an ignored parameter works. */
export type UrlParameters = Readonly<Record<string, UrlParameter>>;

export const urlParameter = {
  text: { takes: 'a text', read: (text: string) => (text === '' ? undefined : text) },
  wholeNumber: {
    takes: 'a whole number',
    read: (text: string) => (/^\d{1,9}$/.test(text) ? Number(text) : undefined),
  },
  trueOrFalse: oneOf({ true: true, 1: true, false: false, 0: false }),
  oneOf,
};

/** @param values maps each text that the parameter accepts to its value */
function oneOf(values: Readonly<Record<string, unknown>>): UrlParameter {
  const read = (text: string): unknown => (Object.hasOwn(values, text) ? values[text] : undefined);
  return { takes: Object.keys(values).join(', '), read };
}

/** Refuses each of these parameters, with the same advice. */
export function refused(instead: string, ...names: readonly string[]): UrlParameters {
  return Object.fromEntries(names.map((name) => [name, { instead }]));
}

/** The parameters by which drivers ask for TLS. If a store ignored one, the connection would silently be in plain text. */
export const TLS_PARAMETERS: readonly string[] = [
  'ssl tls sslmode ssl-mode sslMode ssl_mode useSSL requireSSL requiressl tlsMode sslaccept sslcert',
  'sslkey sslrootcert sslca ssl-ca ssl-cert ssl-key sslpassword sslidentity sslcrl ssl_ca ssl_cert',
  'ssl_key ssl_cert_reqs ssl_ca_certs ssl_check_hostname tlsCAFile tlsInsecure cacert cert key ca',
  'secure verifyServerCertificate channel_binding gssencmode sslnegotiation rejectUnauthorized',
].flatMap((names) => names.split(' '));

/**
 * @param store name of the store function, such as `redisStore`
 * @param query the part of the URL after its `?`
 * @returns the parsed values by name
 * @throws LockConfigurationError for a parameter that the store does not follow. The message has no values, which may be secret
 */
export function readParameters(
  store: string,
  query: string,
  parameters: UrlParameters,
): Readonly<Record<string, unknown>> {
  const found: Record<string, unknown> = {};
  for (const [name, text] of new URLSearchParams(query)) {
    if (!/^[\w.-]{1,64}$/.test(name) || query.includes('@')) throw unencodedError(store);
    if (Object.hasOwn(found, name)) throw refusal(store, name, 'It is given twice: write it once.');
    const parameter = Object.hasOwn(parameters, name) ? parameters[name] : undefined;
    if (!parameter) throw refusal(store, name, unknownAdvice(name, parameters));
    if ('instead' in parameter) throw refusal(store, name, parameter.instead);
    const value = parameter.read(text);
    if (value === undefined) throw refusal(store, name, `It takes ${parameter.takes}.`);
    found[name] = value;
  }
  return found;
}

/** Decodes a part of a URL. @throws LockConfigurationError for a `%` that begins no encoded character */
export function decoded(store: string, text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new LockConfigurationError(
      `${store} cannot read its URL: a % in it begins no encoded character. Write a % as %25, and users and passwords by encodeURIComponent.`,
    );
  }
}

/** @throws LockConfigurationError for an option by which other libraries ask for TLS, and which is not in `known` */
export function refuseOtherTlsNames(
  store: string,
  options: object,
  { known, instead }: { readonly known: readonly string[]; readonly instead: string },
): void {
  for (const name of TLS_PARAMETERS) {
    if (known.includes(name) || !(name in options)) continue;
    const value = (options as Readonly<Record<string, unknown>>)[name];
    if (value === undefined || value === null || value === false) continue;
    throw new LockConfigurationError(`${store} cannot follow the option "${name}". ${instead}`);
  }
}

function refusal(store: string, name: string, advice: string): LockConfigurationError {
  return new LockConfigurationError(`${store} cannot follow the parameter "${name}" of its URL. ${advice}`);
}

function unencodedError(store: string): LockConfigurationError {
  return new LockConfigurationError(
    `${store} cannot read what stands behind the ? of its URL. A password that holds a ? or an @ must be written by encodeURIComponent.`,
  );
}

function unknownAdvice(name: string, parameters: UrlParameters): string {
  const followed = Object.keys(parameters).filter((known) => 'read' in (parameters[known] as UrlParameter));
  const nearest = nearestName(name, followed);
  if (nearest !== undefined) return `Did you mean ${nearest}?`;
  const list = followed.length === 0 ? 'It takes none' : `It takes ${followed.join(', ')}`;
  return `${list}: leave this one out.`;
}

/** Copies all properties of an options object: also those that are not enumerable, as the password in a pool of pg, and class getters. */
export function readOptions(source: object): Readonly<Record<string, unknown>> {
  const values: Record<string, unknown> = {};
  for (const name of optionNames(source)) values[name] = (source as Record<string, unknown>)[name];
  return values;
}

function optionNames(source: object): ReadonlySet<string> {
  const names = new Set(Object.getOwnPropertyNames(source));
  for (let object = parentOf(source); object && parentOf(object); object = parentOf(object)) {
    const described = Object.entries(Object.getOwnPropertyDescriptors(object));
    for (const [name, property] of described) if ('get' in property || property.enumerable) names.add(name);
  }
  return names;
}

function parentOf(object: object): object | null {
  return Object.getPrototypeOf(object) as object | null;
}

interface LiveSource {
  readonly read: () => object | undefined;
  /** The application's values at the time when the store made its own options from them. */
  readonly first: Readonly<Record<string, unknown>>;
  /** Options that the store sets itself. */
  readonly except: object;
  /** Called when a getter of the application throws. The connection then uses its last value. */
  readonly onError: (error: unknown) => void;
}

/** Credentials that follow the application's options even if they were missing there when the store was made. */
const LATER = ['username', 'password', 'sentinelUsername', 'sentinelPassword'];

/**
 * Makes a connection's options follow those of the application, so that the next attempt to connect uses, for example, a rotated
 * password. Values that never change stay as the client library has parsed them.
 */
export function keepLive(options: object, { read, first, except, onError }: LiveSource): void {
  const values = options as Record<string, unknown>;
  for (const name of new Set([...Object.keys(first), ...LATER])) {
    if (name in except) continue;
    let value = values[name];
    let last = first[name];
    Object.defineProperty(options, name, {
      enumerable: true,
      configurable: true,
      get: () => {
        try {
          const now = (read() as Record<string, unknown> | undefined)?.[name];
          if (now !== last) value = last = now;
        } catch (error) {
          onError(error);
        }
        return value;
      },
      set: (own: unknown) => {
        value = own;
      },
    });
  }
}
