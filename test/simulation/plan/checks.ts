import { InputError } from '../input-error.js';

/** Throws an `InputError` unless the value that stands at `at` in a plan can be run. */
export type Check = (value: unknown, at: string) => void;

const SHOWN = 60;

export function refuse(at: string, expected: string, value: unknown): never {
  if (value === undefined) throw new InputError(`${at} is missing: it is ${expected}`);
  throw new InputError(`${at} is ${expected}, and not ${JSON.stringify(value).slice(0, SHOWN)}`);
}

export const text: Check = (value, at) => {
  if (typeof value !== 'string') refuse(at, 'a text', value);
};

export function number(least: number, most = Infinity): Check {
  return (value, at) => {
    if (typeof value !== 'number' || value < least || value > most)
      refuse(at, `a number ${rangeOf(least, most)}`, value);
  };
}

export function whole(least: number, most = Infinity): Check {
  return (value, at) => {
    if (!Number.isInteger(value) || Number(value) < least || Number(value) > most)
      refuse(at, `a whole number ${rangeOf(least, most)}`, value);
  };
}

function rangeOf(least: number, most: number): string {
  return most === Infinity ? `from ${least} on` : `from ${least} to ${most}`;
}

export function oneOf(...known: readonly (string | boolean)[]): Check {
  return (value, at) => {
    if (!known.some((it) => it === value)) refuse(at, `one of ${known.join(', ')}`, value);
  };
}

export function optional(check: Check): Check {
  return (value, at) => {
    if (value !== undefined) check(value, at);
  };
}

/** The text `name`, or what `check` accepts. */
export function nameOr(name: string, check: Check): Check {
  return (value, at) => {
    if (value !== name) check(value, at);
  };
}

export function listOf(check: Check, least = 0): Check {
  return (value, at) => {
    if (!Array.isArray(value)) return refuse(at, 'a list', value);
    if (value.length < least) refuse(at, 'a list that is not empty', value);
    value.forEach((item, i) => check(item, `${at}[${i}]`));
  };
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** An object with these fields and no others. */
export function fields<T extends object>(checks: Readonly<Record<keyof T & string, Check>>): Check {
  return (value, at) => {
    if (!isObject(value)) return refuse(at, 'an object', value);
    const known = Object.keys(checks);
    for (const name of Object.keys(value))
      if (!known.includes(name))
        throw new InputError(`${at}.${name} is unknown; known are ${known.join(', ')}`);
    for (const [name, check] of Object.entries<Check>(checks)) check(value[name], `${at}.${name}`);
  };
}

/** An object whose `do` says which other fields it has. */
export function doing(kinds: Readonly<Record<string, Readonly<Record<string, Check>>>>): Check {
  const known = oneOf(...Object.keys(kinds));
  return (value, at) => {
    if (!isObject(value)) return refuse(at, 'an object', value);
    known(value['do'], `${at}.do`);
    fields({ do: text, ...kinds[value['do'] as string] })(value, at);
  };
}
