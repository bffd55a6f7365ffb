import { describeGiven } from '../../options/describe-given.js';
import { checkOption, checkOptionNames, type OptionNames } from '../../options/option-names.js';
import type { ForceReleaseOptions } from '../lock.js';
import { MAX_TEXT } from './this-process.js';

const FORCE_NAMES: OptionNames<ForceReleaseOptions> = { owner: true, by: true };

/** The options of a forced release as the store takes them. `owners` is absent only where the caller has left `owner` out. */
interface ForceRequest {
  readonly owners?: readonly string[];
  /** `undefined`: the line that has called is told in its place. */
  readonly by: string | undefined;
}

/**
 * @throws LockConfigurationError for wrong options. An `owner` that is `undefined` is one of them: it may come from a key that
 * nobody held, and the lock of the next holder would be taken.
 */
export function forceRequest(options: ForceReleaseOptions): ForceRequest {
  checkOptionNames('forceRelease', options, FORCE_NAMES);
  const { owner, by } = options;
  checkOption(by === undefined || isName(by), 'by', 'the name of who releases the lock', by);
  const request = { by: by?.slice(0, MAX_TEXT) };
  if (!('owner' in options)) return request;
  const owners: readonly unknown[] = Array.isArray(owner) ? owner : [owner];
  const must = 'the id of a holder, or a list of ids, as locks.inspect(key) tells them';
  checkOption(owners.every(isName), 'owner', must, owners, (given) => {
    const wrong = given.find((it) => !isName(it));
    return `${describeGiven(wrong)}. Leave it out to take the lock from whoever holds it`;
  });
  return { ...request, owners: owners as readonly string[] };
}

function isName(value: unknown): boolean {
  return typeof value === 'string' && value !== '';
}
