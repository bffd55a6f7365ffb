import { describeGiven, describeNumber } from '../../options/describe-given.js';
import { checkOptionNames, type OptionNames } from '../../options/option-names.js';
import { LockConfigurationError } from '../../port/lock.errors.js';
import type { ListRequest } from '../../port/lock-store.js';
import type { ListOptions } from '../lock.js';

const LIST_NAMES: OptionNames<ListOptions> = { prefix: true, limit: true, cursor: true };
const MOST = 1000;

/** @throws LockConfigurationError for wrong options */
export function listRequest(options: ListOptions): ListRequest {
  checkOptionNames('list', options, LIST_NAMES);
  const { prefix = '', limit = 100, cursor } = options;
  if (typeof prefix !== 'string') {
    throw new LockConfigurationError(`prefix must be a text; it was given ${describeGiven(prefix)}.`);
  }
  if (!Number.isInteger(limit) || limit < 1 || limit > MOST) {
    throw new LockConfigurationError(
      `limit must be a whole number from 1 to ${MOST}; it is ${describeNumber(limit)}.`,
    );
  }
  if (cursor !== undefined && typeof cursor !== 'string') {
    throw new LockConfigurationError(
      `cursor must be the cursor of a page; it was given ${describeGiven(cursor)}.`,
    );
  }
  return { prefix, limit, ...(cursor !== undefined && { cursor }) };
}
