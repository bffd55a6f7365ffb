import { describeGiven } from '../../options/describe-given.js';

/** Says what is wrong with a value that a store gave; `undefined` for one that is right. */
export type Check = (value: unknown) => string | undefined;

/** As `check`. An object of any kind may be given: with a getter that throws, or a Proxy. */
export function problemOf(value: unknown, check: Check): string | undefined {
  try {
    return check(value);
  } catch (error) {
    return `it cannot be read: ${error instanceof Error ? error.message : describeGiven(error)}`;
  }
}

type Shape = Readonly<Record<string, (value: unknown) => boolean>>;

export const isText = (value: unknown): boolean => typeof value === 'string';
export const isNumber = (value: unknown): boolean => typeof value === 'number' && !Number.isNaN(value);
export const isFunction = (value: unknown): boolean => typeof value === 'function';
const isBoolean = (value: unknown): boolean => typeof value === 'boolean';
const isTexts = (value: unknown): boolean => Array.isArray(value) && value.every(isText);
const optional = (is: (value: unknown) => boolean) => (value: unknown) => value === undefined || is(value);

export function ofShape(shape: Shape): Check {
  const members = Object.entries(shape).map(([name, isRight]) => ({ name, isRight }));
  return (value) => {
    if (typeof value !== 'object' || value === null) return `it is ${described(value)}`;
    const given = value as Readonly<Record<string, unknown>>;
    for (const { name, isRight } of members)
      if (!isRight(given[name])) return `its ${name} is ${described(given[name])}`;
    return undefined;
  };
}

export function oneOf(...words: readonly string[]): Check {
  return (value) => (words.includes(value as string) ? undefined : `it is ${described(value)}`);
}

/** @param length how long the list must be; by default any length */
export function listOf(check: Check, length?: number): Check {
  return (value) => {
    if (!Array.isArray(value)) return `it is ${described(value)}`;
    if (length !== undefined && value.length !== length) return `it has ${value.length} of ${length} entries`;
    return value.map(check).find((what) => what !== undefined);
  };
}

function byKind(shapes: Readonly<Record<string, Shape>>): Check {
  const checks = new Map(Object.entries(shapes).map(([kind, shape]) => [kind, ofShape(shape)]));
  const anyKind = ofShape({ kind: (kind) => checks.has(kind as string) });
  return (value) => {
    const check = checks.get((value as { readonly kind?: string } | null | undefined)?.kind as string);
    return (check ?? anyKind)(value);
  };
}

function described(value: unknown): string {
  return typeof value === 'number' || typeof value === 'string'
    ? JSON.stringify(value)
    : describeGiven(value);
}

const GRANT: Shape = {
  token: isNumber,
  lastToken: isNumber,
  validUntil: isNumber,
  waiting: isNumber,
  confirmed: isBoolean,
};
const BUSY: Shape = { holder: optional(isText), remainingMs: isNumber };

export const checkAcquireReply = byKind({
  granted: GRANT,
  queued: { ticket: isNumber, recheckAfterMs: isNumber, ...BUSY },
  busy: BUSY,
});
export const checkReleaseReply = oneOf('released', 'not held', 'unknown');
export const checkRenewalReply = byKind({
  renewed: { validUntil: isNumber, waiting: isNumber },
  lost: {},
  unknown: { error: (value) => value instanceof Error },
});
export const checkNotification = byKind({
  granted: { owner: isText, ...GRANT },
  contended: { owner: isText, waiting: isNumber },
  lost: { owner: isText, by: optional(isText) },
  takeover: { owner: isText, graceMs: isNumber, by: isText },
  recheck: { owner: optional(isText), afterMs: isNumber },
});
export const checkSnapshot = ofShape({
  key: isText,
  mode: optional(isText),
  holders: isTexts,
  remainingMs: isNumber,
  pending: isTexts,
  fencingToken: optional(isNumber),
});
export const checkKeyPage: Check = (value) =>
  ofShape({ entries: Array.isArray, unreadable: optional(Array.isArray), cursor: optional(isText) })(value) ??
  listOf(checkSnapshot)((value as { readonly entries: unknown }).entries) ??
  listOf(ofShape({ key: isText, message: isText }))(
    (value as { readonly unreadable?: unknown }).unreadable ?? [],
  );
