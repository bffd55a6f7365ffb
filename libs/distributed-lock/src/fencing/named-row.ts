import { describeGiven } from '../options/describe-given.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import type { SqlRow } from './fenced-sql.js';

/** @throws LockConfigurationError when `where`, which JavaScript or a request may have filled, names no row of `table` */
export function assertNamesRow(where: SqlRow, table: string): void {
  const columns = Object.entries((where as SqlRow | null | undefined) ?? {});
  if (columns.length === 0) {
    throw new LockConfigurationError(`where must name the row of ${table}: it is empty.`);
  }
  const vague = columns.find(([, value]) => !isComparable(value));
  if (!vague) return;
  const [column, value] = vague;
  const kind = Number.isNaN(value) ? 'NaN' : describeGiven(value);
  throw new LockConfigurationError(
    `where must name the row of ${table}: its ${column} is ${kind}, which equals no column. Give the value that stands in the row.`,
  );
}

/** `NULL` equals nothing, and some drivers make SQL of an object or a list. Objects of a class, such as Date, are values. */
function isComparable(value: unknown): boolean {
  if (value === null || typeof value !== 'object') {
    return ['string', 'number', 'bigint', 'boolean'].includes(typeof value) && !Number.isNaN(value);
  }
  const prototype = Object.getPrototypeOf(value) as object | null;
  return !Array.isArray(value) && prototype !== null && Object.getPrototypeOf(prototype) !== null;
}
