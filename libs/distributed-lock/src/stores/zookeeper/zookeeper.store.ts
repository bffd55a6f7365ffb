import type { ConnectionOptions } from 'node:tls';
import { describeGiven } from '../../options/describe-given.js';
import { checkOptionNames, type OptionNames } from '../../options/option-names.js';
import { LockConfigurationError } from '../../port/lock.errors.js';
import type { LockStoreFactory } from '../../port/lock-store.js';
import { systemChance } from '../../time/chance.js';
import { checkCommandTimeout } from '../common/command-timeout.js';
import { DocumentStore } from '../core/document.store.js';
import { SessionRegister } from '../session/session-register.js';
import { LockPaths } from './lock-path.js';
import { ZookeeperBackend } from './zookeeper.backend.js';
import { addressesOf, checkPath, ensembleOf, shuffled, type ZookeeperTarget } from './zookeeper.target.js';

const OPTION_NAMES: OptionNames<ZookeeperStoreOptions> = {
  root: true,
  auth: true,
  tls: true,
  commandTimeoutMs: true,
};
export const ZOOKEEPER_ROOT = '/nest-lock';
export const ZOOKEEPER_COMMAND_TIMEOUT_MS = 1000;

/**
 * Locks in ZooKeeper, 3.5 or later: one znode for each key. Each store has one session, at least as long as the watchdog's timeout,
 * and what it holds ends with that session.
 *
 * @param target the servers of one ensemble
 * @throws LockConfigurationError for a target that names no server, and for options that would do nothing
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
  checkOptionNames('zookeeperStore', options, OPTION_NAMES);
  const { root = ZOOKEEPER_ROOT, auth, tls, commandTimeoutMs = ZOOKEEPER_COMMAND_TIMEOUT_MS } = options;
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
        addressesOf(ensemble),
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
  /** The znode under which the locks are; default `/nest-lock`. Made on first use. */
  readonly root?: string;
  /** `user:password` for the scheme digest: only clients that give the same can read or change the locks. Without it, all can. */
  readonly auth?: string;
  /** Options of `tls.connect` for a secure port of the servers. */
  readonly tls?: ConnectionOptions;
  /**
   * How long a server may be silent, in ms, before its connection is given up and another server is tried; default 1000.
   * Bounds how long a failure can hide, and how late a call settles after its `waitMs`. At most a third of the watchdog's
   * timeout.
   */
  readonly commandTimeoutMs?: number;
}

function checkAuth(auth: unknown): void {
  if (typeof auth === 'string' && /^[^:]+:./s.test(auth)) return;
  throw new LockConfigurationError(
    `auth must be 'user:password', as for the scheme digest; it was given ${typeof auth === 'string' ? 'another text' : describeGiven(auth)}.`,
  );
}
