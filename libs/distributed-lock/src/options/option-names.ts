import { describeGiven } from './describe-given.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { nearestName } from './nearest-name.js';

/** All names of the options `T`. A missing name does not compile. */
export type OptionNames<T> = Readonly<Record<keyof T, true>>;

/**
 * Refuses options that are no object, and unknown names, which a configuration without types lets through. An option
 * that is `undefined` counts as left out, whatever its name.
 *
 * @param of the function, class or option that these options are for, for the message
 * @throws LockConfigurationError with the nearest known name, without values, which may be secret
 */
export function checkOptionNames(of: string, options: unknown, names: Readonly<Record<string, true>>): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new LockConfigurationError(
      `The options of ${of} must be an object; it was given ${describeGiven(options)}.`,
    );
  }
  for (const name in options) {
    if (names[name] === true || (options as Readonly<Record<string, unknown>>)[name] === undefined) continue;
    const known = Object.keys(names);
    const nearest = nearestName(name, known);
    const instead = nearest ? `did you mean ${nearest}?` : `there are: ${known.join(', ')}.`;
    throw new LockConfigurationError(`${of} has no option "${name}"; ${instead}`);
  }
}

/** `options` over `defaults`. An option that is `undefined` counts as left out. */
export function overlay<D extends object, O extends object>(defaults: D, options: O): D & O {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return { ...defaults, ...(Object.fromEntries(given) as O) };
}
