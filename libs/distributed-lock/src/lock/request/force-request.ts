import { describeGiven } from '../../options/describe-given.js';
import { checkOptionNames, type OptionNames } from '../../options/option-names.js';
import { LockConfigurationError } from '../../port/lock.errors.js';
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
  if (by !== undefined && (typeof by !== 'string' || by === '')) {
    throw new LockConfigurationError(
      `by must name who releases the lock; it was given ${describeGiven(by)}.`,
    );
  }
  const request = { by: by?.slice(0, MAX_TEXT) };
  if (!('owner' in options)) return request;
  const owners: readonly unknown[] = Array.isArray(owner) ? owner : [owner];
  const wrong = owners.filter((it) => typeof it !== 'string' || it === '');
  if (wrong.length > 0) {
    throw new LockConfigurationError(
      `owner must be the id of a holder, or a list of ids, as locks.inspect(key) tells them; it was given ${describeGiven(wrong[0])}. Leave it out to take the lock from whoever holds it.`,
    );
  }
  return { ...request, owners: owners as readonly string[] };
}
