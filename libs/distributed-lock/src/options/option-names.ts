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
export function checkOptionNames(
  of: string,
  options: unknown,
  names: Readonly<Record<string, unknown>>,
): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new LockConfigurationError(
      `The options of ${of} must be an object; it was given ${describeGiven(options)}.`,
    );
  }
  for (const name in options) {
    if (Object.hasOwn(names, name) || (options as Readonly<Record<string, unknown>>)[name] === undefined)
      continue;
    const known = Object.keys(names);
    const nearest = nearestName(name, known);
    const instead = nearest ? `did you mean ${nearest}?` : `there are: ${known.join(', ')}.`;
    throw new LockConfigurationError(`${of} has no option "${name}"; ${instead}`);
  }
}

/** What the value of an option must be; `true` for an option whose value is checked elsewhere. */
export type OptionRules<T> = Readonly<Record<keyof T, true | OptionRule>>;

/** A test of the value, and how the message ends that begins with `… must be`. */
export type OptionRule = readonly [
  isRight: (value: unknown) => boolean,
  words: string,
  describe?: (value: unknown) => string,
];

export const TEXT_OPTION: OptionRule = [(value) => typeof value === 'string', 'a text'];
export const BOOLEAN_OPTION: OptionRule = [(value) => typeof value === 'boolean', 'true or false'];
export const REGISTRATION_NAME: OptionRule = [
  (value) => typeof value === 'string' && value !== '',
  'the name of a registration',
];

/** The values are no secrets, and neither is a misspelt one. */
export function oneOf(...values: readonly string[]): OptionRule {
  const words = values.map((value) => `'${value}'`).join(', ');
  return [
    (value) => values.includes(value as string),
    words.replace(/, ([^,]*)$/, ' or $1'),
    (value) => (typeof value === 'string' ? value : describeGiven(value)),
  ];
}

/** Checks the names as `checkOptionNames` does, and the values that are given. @throws LockConfigurationError */
export function checkOptions<T extends object>(of: string, options: T, rules: OptionRules<T>): void {
  checkOptionNames(of, options, rules);
  for (const [name, rule] of Object.entries<true | OptionRule>(rules)) {
    const value: unknown = options[name as keyof T];
    if (rule === true || value === undefined) continue;
    const [isRight, words, describe = describeGiven] = rule;
    if (isRight(value)) continue;
    throw new LockConfigurationError(`${of}: ${name} must be ${words}; it is ${describe(value)}.`);
  }
}

/**
 * @param must what the option must be, for the message: `a whole number from 1 to 1000`
 * @param describe describes the wrong value without repeating what may be secret
 * @throws LockConfigurationError unless `isRight`
 */
export function checkOption<T>(
  isRight: boolean,
  name: string,
  must: string,
  value: T,
  describe: (value: T) => string = describeGiven,
): void {
  if (!isRight) throw new LockConfigurationError(`${name} must be ${must}; it is ${describe(value)}.`);
}

/** `options` over `defaults`. An option that is `undefined` counts as left out. */
export function overlay<D extends object, O extends object>(defaults: D, options: O): D & O {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return { ...defaults, ...(Object.fromEntries(given) as O) };
}
