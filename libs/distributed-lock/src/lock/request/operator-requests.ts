// The options of the calls for operators, `forceRelease` and `list`, as requests for the store.
import type { ListRequest } from '../../port/lock-store.js';
import {
  checkOptions,
  describeGiven,
  describeNumber,
  type OptionRule,
  type OptionRules,
  RULE,
} from '../../port/option-checks.js';
import type { ForceReleaseOptions, ListOptions } from '../lock.js';
import { MAX_TEXT } from './lock-options.js';

/** The options of a forced release as the store takes them. `owners` is absent only if the caller has left `owner` out. */
interface ForceRequest {
  readonly owners?: readonly string[];
  /** Who releases the lock. If `undefined`, the line of code that called is named instead. */
  readonly by: string | undefined;
}

const isName = (value: unknown): boolean => typeof value === 'string' && value !== '';
const FORCE_RULES: OptionRules<ForceReleaseOptions> = {
  owner: true,
  by: [isName, 'the name of who releases the lock'],
};
const OWNERS: OptionRule = [
  (owners) => (owners as readonly unknown[]).every(isName),
  'the id of a holder, or a list of ids, as locks.inspect(key) tells them',
  (owners) => {
    const wrong = (owners as readonly unknown[]).find((it) => !isName(it));
    return `${describeGiven(wrong)}. Leave it out to take the lock from whoever holds it`;
  },
];

/**
 * Checks the options of a forced release.
 *
 * @throws LockConfigurationError for wrong options, also for an `owner` that is `undefined`: it may come from a key that nobody held,
 * and then the next holder would lose its lock
 */
export function forceRequest(options: ForceReleaseOptions): ForceRequest {
  checkOptions('forceRelease', options, FORCE_RULES);
  const { owner, by } = options;
  const request = { by: by?.slice(0, MAX_TEXT) };
  if (!('owner' in options)) return request;
  const owners = (Array.isArray(owner) ? owner : [owner]) as readonly string[];
  checkOptions('forceRelease', { owner: owners }, { owner: OWNERS });
  return { ...request, owners };
}

const MAX_LIMIT = 1000;
const LIST_RULES: OptionRules<ListOptions> = {
  prefix: RULE.text,
  limit: [
    (limit) => Number.isInteger(limit) && Number(limit) >= 1 && Number(limit) <= MAX_LIMIT,
    `a whole number from 1 to ${MAX_LIMIT}`,
    describeNumber,
  ],
  cursor: [(cursor) => typeof cursor === 'string', 'the cursor of a page'],
};

/**
 * Checks the options of a list.
 *
 * @throws LockConfigurationError for wrong options
 */
export function listRequest(options: ListOptions): ListRequest {
  checkOptions('list', options, LIST_RULES);
  const { prefix = '', limit = 100, cursor } = options;
  return { prefix, limit, ...(cursor !== undefined && { cursor }) };
}
