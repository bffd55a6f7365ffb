import { checkOption, checkOptionNames, type OptionNames } from '../../options/option-names.js';
import type { ListRequest } from '../../port/lock-store.js';
import type { ListOptions } from '../lock.js';
import { checkCount } from './lock-options.js';

const LIST_NAMES: OptionNames<ListOptions> = { prefix: true, limit: true, cursor: true };
const MAX_LIMIT = 1000;

/** @throws LockConfigurationError for wrong options */
export function listRequest(options: ListOptions): ListRequest {
  checkOptionNames('list', options, LIST_NAMES);
  const { prefix = '', limit = 100, cursor } = options;
  checkOption(typeof prefix === 'string', 'prefix', 'a text', prefix);
  checkCount('limit', limit, MAX_LIMIT);
  const isCursor = cursor === undefined || typeof cursor === 'string';
  checkOption(isCursor, 'cursor', 'the cursor of a page', cursor);
  return { prefix, limit, ...(cursor !== undefined && { cursor }) };
}
