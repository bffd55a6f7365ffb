import { isPromiseLike } from '../async-context/maybe-promise.js';

/** Describes what stands where a number should. A number is no secret; a text may be one. */
export function describeNumber(value: unknown): string {
  if (typeof value === 'number') return String(value);
  const isNumeric = typeof value === 'string' && value.trim() !== '' && !Number.isNaN(Number(value));
  return isNumeric ? 'a string, which Number(…) converts' : describeGiven(value);
}

const MS_PER = { ms: 1, s: 1000, sec: 1000, m: 60_000, min: 60_000, h: 3_600_000, d: 86_400_000 };

/** Describes what stands where a number of ms should. Other libraries write `'10s'`, which is no secret. */
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

/** Describes what stands where the address of a server should, for the stores. */
export function describeServer(value: unknown): string {
  const isMissing = value === undefined || value === '';
  return `${describeGiven(value)}${isMissing ? ': is its environment variable set?' : '.'}`;
}
