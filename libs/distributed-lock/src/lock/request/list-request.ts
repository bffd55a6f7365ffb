import { describeNumber } from '../../options/describe-given.js';
import { checkOptions, TEXT_OPTION, type OptionRules } from '../../options/option-names.js';
import type { ListRequest } from '../../port/lock-store.js';
import type { ListOptions } from '../lock.js';

const MAX_LIMIT = 1000;
const RULES: OptionRules<ListOptions> = {
  prefix: TEXT_OPTION,
  limit: [
    (limit) => Number.isInteger(limit) && Number(limit) >= 1 && Number(limit) <= MAX_LIMIT,
    `a whole number from 1 to ${MAX_LIMIT}`,
    describeNumber,
  ],
  cursor: [(cursor) => typeof cursor === 'string', 'the cursor of a page'],
};

/** @throws LockConfigurationError for wrong options */
export function listRequest(options: ListOptions): ListRequest {
  checkOptions('list', options, RULES);
  const { prefix = '', limit = 100, cursor } = options;
  return { prefix, limit, ...(cursor !== undefined && { cursor }) };
}
