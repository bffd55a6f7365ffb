import { checkOptions, REGISTRATION_NAME, TEXT_OPTION, type OptionRules } from '../options/option-names.js';
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

const RULES: OptionRules<LeaderOptions> = { service: REGISTRATION_NAME, keyPrefix: TEXT_OPTION };

/** @throws LockConfigurationError for a wrong name, and for options that are unknown or of another type */
export function checkLeader(name: unknown, options: LeaderOptions): void {
  checkLeaderName('LeaderModule.forFeature', name);
  checkOptions('LeaderModule.forFeature', options, RULES);
}
