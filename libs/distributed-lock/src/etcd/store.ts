import { systemChance } from '../common/clock.js';
import { checkCommandTimeout } from '../connection/checks.js';
import { DocumentStore } from '../document/store.js';
import type { LockStoreFactory } from '../port/lock-store.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { checkOptions, describeGiven, type OptionRules } from '../port/option-checks.js';
import { SessionRegister } from '../session/register.js';
import { EtcdBackend } from './backend.js';
import { type EtcdAuth, type EtcdTls, targetOf } from './target.js';

export const ETCD_ROOT = 'nest-lock/';
export const ETCD_COMMAND_TIMEOUT_MS = 1000;
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
  const { root = ETCD_ROOT, commandTimeoutMs = ETCD_COMMAND_TIMEOUT_MS, tls, auth } = all;
  checkRoot(root);
  const target = targetOf(all.endpoints, { tls, auth });
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
    `root must be a text of 1 to ${MAX_ROOT_BYTES} bytes, as ${ETCD_ROOT}; it is ${typeof root === 'string' ? JSON.stringify(root.slice(0, 40)) : describeGiven(root)}.`,
  );
}
