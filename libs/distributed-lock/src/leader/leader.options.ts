import { describeGiven } from '../options/describe-given.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { checkOptionNames, type OptionNames } from '../options/option-names.js';
import { checkLeaderName } from './leader.tokens.js';

/** Options of `LeaderModule.forFeature`. */
export interface LeaderOptions {
  /**
   * The registration of `DistributedLockModule` to use; default: the one without a name. Its `watchdogTimeoutMs` says how
   * soon another instance leads after a crash, and its `shutdownGraceMs` how long the work of a term may take to end.
   */
  readonly service?: string;
  /** Text before the name in the key of the lock; default `leader:`. All instances need the same. */
  readonly keyPrefix?: string;
}

const OPTION_NAMES: OptionNames<LeaderOptions> = { service: true, keyPrefix: true };

/** @throws LockConfigurationError for a wrong name, and for options that are unknown or of another type */
export function checkLeader(name: unknown, options: LeaderOptions): void {
  const of = 'LeaderModule.forFeature';
  checkLeaderName(of, name);
  checkOptionNames(of, options, OPTION_NAMES);
  const { service, keyPrefix } = options;
  if (service !== undefined && (typeof service !== 'string' || service === '')) {
    throw new LockConfigurationError(
      `${of}: service must be the name of a registration; it is ${describeGiven(service)}.`,
    );
  }
  if (keyPrefix !== undefined && typeof keyPrefix !== 'string') {
    throw new LockConfigurationError(`${of}: keyPrefix must be a text; it is ${describeGiven(keyPrefix)}.`);
  }
}
