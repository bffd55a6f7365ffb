import { isPromiseLike } from '../common/promises.js';
import { LockConfigurationError } from './lock.errors.js';

/**
 * How to check a value: a function that tests it, the end of the message `… must be`, and a function that describes a wrong value for the
 * message (default: without repeating it, because it may be secret).
 */
export type OptionRule = readonly [
  isRight: (value: unknown) => boolean,
  words: string,
  describe?: (value: unknown) => string,
];

/** For each option the rule for its value; `true` if another check covers the value. A missing name does not compile. */
export type OptionRules<T> = Readonly<Record<keyof T, true | OptionRule>>;

/** Rules that several functions use. */
export const RULE = {
  text: [(value) => typeof value === 'string', 'a text'],
  boolean: [(value) => typeof value === 'boolean', 'true or false'],
  registration: [(value) => typeof value === 'string' && value !== '', 'the name of a registration'],
  /** For an option that takes one of these strings. The message repeats a wrong string, because a misspelling of one is not secret. */
  oneOf(...values: readonly string[]): OptionRule {
    const words = values.map((value) => `'${value}'`).join(', ');
    return [
      (value) => values.includes(value as string),
      words.replace(/, ([^,]*)$/, ' or $1'),
      (value) => (typeof value === 'string' ? value : describeGiven(value)),
    ];
  },
} satisfies Readonly<Record<string, OptionRule | ((...values: readonly string[]) => OptionRule)>>;

/**
 * Refuses options that are not an object, unknown names, which TypeScript does not see in an untyped configuration, and wrong values. An
 * option that is `undefined` counts as left out, whatever its name.
 *
 * @param of the function, class or option that these options are for, as it appears in the message
 * @throws LockConfigurationError; for an unknown name with the nearest known one, and without the value, which may be secret
 */
export function checkOptions(
  of: string,
  options: unknown,
  rules: Readonly<Record<string, true | OptionRule>>,
): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new LockConfigurationError(
      `The options of ${of} must be an object; it was given ${describeGiven(options)}.`,
    );
  }
  const given = options as Readonly<Record<string, unknown>>;
  for (const name in given) {
    if (!Object.hasOwn(rules, name) && given[name] !== undefined) throw unknownError(of, name, rules);
  }
  for (const name in rules) {
    const rule = rules[name];
    const value = given[name];
    if (rule === undefined || rule === true || value === undefined || rule[0](value)) continue;
    const [, words, describe = describeGiven] = rule;
    throw new LockConfigurationError(`${of}: ${name} must be ${words}; it is ${describe(value)}.`);
  }
}

function unknownError(of: string, name: string, rules: object): LockConfigurationError {
  const known = Object.keys(rules);
  const nearest = nearestName(name, known);
  const instead = nearest ? `did you mean ${nearest}?` : `there are: ${known.join(', ')}.`;
  return new LockConfigurationError(`${of} has no option "${name}"; ${instead}`);
}

/** Returns `defaults`, overridden by `options`. An option that is `undefined` counts as left out. */
export function overlay<D extends object, O extends object>(defaults: D, options: O): D & O {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return { ...defaults, ...(Object.fromEntries(given) as O) };
}

/**
 * Words that other libraries use for our options, to suggest the right name. If a word stands for several options, the first one that the
 * checked function takes is suggested.
 */
const ELSEWHERE: Readonly<Record<string, readonly string[]>> = {
  leaseMs: ['ttl', 'duration', 'expire', 'expires', 'expiry', 'expiration', 'leaseTime'],
  watchdogTimeoutMs: ['ttl', 'lockTtl', 'leaseMs', 'leaseTime'],
  waitMs: [
    'timeout',
    'acquireTimeout',
    'waitTime',
    'waitTimeout',
    'retry',
    'retries',
    'retryCount',
    'maxRetries',
  ],
  permits: ['limit', 'max', 'concurrency'],
  keyPrefix: ['prefix', 'namespace'],
  store: ['redis', 'client', 'driver', 'connection'],
};

/**
 * The option whose name is probably meant: `written` is a misspelling of it, or the word of another library for it. `undefined` if none
 * is.
 */
export function nearestName(written: string, names: readonly string[]): string | undefined {
  const word = written.toLowerCase().replace(/ms$/, '');
  const meant = names.find((name) =>
    ELSEWHERE[name]?.some((other) => [word, `${word}ms`].includes(other.toLowerCase())),
  );
  if (meant !== undefined) return meant;
  const [best] = names
    .map((name) => ({ name, distance: distanceOf(written.toLowerCase(), name.toLowerCase()) }))
    .sort((a, b) => a.distance - b.distance);
  return best && best.distance <= (written.length > 3 ? Math.max(2, best.name.length / 3) : 1)
    ? best.name
    : undefined;
}

/** The edit distance: how many letters to add, remove or replace; 1 if one name begins with the other. */
function distanceOf(a: string, b: string): number {
  if (a.length >= 3 && (a.startsWith(b) || b.startsWith(a))) return a === b ? 0 : 1;
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

/** Describes a value that should have been a number. A number is no secret and is repeated; a text may be one and is not. */
export function describeNumber(value: unknown): string {
  if (typeof value === 'number') return String(value);
  const isNumeric = typeof value === 'string' && value.trim() !== '' && !Number.isNaN(Number(value));
  return isNumeric ? 'a string, which Number(…) converts' : describeGiven(value);
}

const MS_PER = { ms: 1, s: 1000, sec: 1000, m: 60_000, min: 60_000, h: 3_600_000, d: 86_400_000 };

/** Describes a value that should have been a number of ms. `'10s'`, as other libraries write it, is repeated: it is no secret. */
export function describeMs(value: unknown): string {
  const [, amount, unit] =
    (typeof value === 'string' && /^\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*$/i.exec(value)) || [];
  const ms = Number(amount) * (MS_PER[unit?.toLowerCase() as keyof typeof MS_PER] ?? NaN);
  return Number.isNaN(ms) ? describeNumber(value) : `'${String(value)}': write ${Math.round(ms)}`;
}

/** Describes a value for messages without repeating it, because it may be secret. */
export function describeGiven(value: unknown): string {
  if (value === undefined || value === null) return String(value);
  if (value === '') return 'an empty string';
  if (Array.isArray(value)) return 'a list';
  if (typeof value !== 'object') return `a ${typeof value}`;
  if (isPromiseLike(value)) return 'a promise, which must be awaited';
  const { name = '' } = (Object.getPrototypeOf(value) as object | null)?.constructor ?? {};
  return name === '' || name === 'Object' ? 'an object' : `an object of class ${name}`;
}
