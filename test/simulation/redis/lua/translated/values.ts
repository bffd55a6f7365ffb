import { formatG } from '../../resp/numbers.js';

/** A value of Lua. A text is a byte string, nil is `undefined`. A list is what a call gives that gives several values, or none. */
export type LuaValue = undefined | boolean | number | string | LuaTable | LuaFunction | typeof NULL;
export type LuaResult = LuaValue | readonly LuaValue[];
export type LuaFunction = (...args: LuaValue[]) => LuaResult;

/** `cjson.null`. */
export const NULL = Object.freeze({ isNull: true });

/** What Lua throws: a text, or a table with `err` of which the line is known. */
export class LuaError extends Error {
  constructor(
    readonly value: LuaValue,
    readonly line?: number,
  ) {
    super(typeof value === 'string' ? value : 'a table');
  }
}

/** Its items are those from 1 to the first that is missing, and all others are fields. */
export class LuaTable {
  readonly fields = new Map<LuaValue, LuaValue>();

  constructor(readonly items: LuaValue[] = []) {}

  get(key: LuaValue): LuaValue {
    if (typeof key === 'number') {
      const item = this.items[key - 1];
      if (item !== undefined) return item;
    }
    return this.fields.size === 0 ? undefined : this.fields.get(key);
  }

  set(key: LuaValue, value: LuaValue): void {
    const { items, fields } = this;
    if (key === undefined) throw new LuaError('index is nil');
    if (typeof key !== 'number' || !Number.isInteger(key) || key < 1 || key > items.length + 1) {
      if (value === undefined) fields.delete(key);
      else fields.set(key, value);
    } else if (value !== undefined) {
      items[key - 1] = value;
      // Those behind a gap that is closed.
      for (let next = fields.get(items.length + 1); next !== undefined; next = fields.get(items.length + 1)) {
        fields.delete(items.length + 1);
        items.push(next);
      }
    } else if (key <= items.length) {
      items.slice(key).forEach((item, i) => fields.set(key + i + 1, item));
      items.length = key - 1;
    }
  }

  static withText(name: string, text: string): LuaTable {
    const table = new LuaTable();
    table.fields.set(name, text);
    return table;
  }
}

/** As a constructor with these items gives it, of which some may be nil. */
export function tableOf(items: LuaValue[], fields: readonly LuaValue[] = []): LuaTable {
  const end = items.indexOf(undefined);
  const table = new LuaTable(end < 0 ? items : items.slice(0, end));
  if (end >= 0) for (let i = end + 1; i < items.length; i++) table.set(i + 1, items[i]);
  for (let i = 0; i < fields.length; i += 2) table.set(fields[i], fields[i + 1]);
  return table;
}

export function isTrue(value: LuaValue): boolean {
  return value !== undefined && value !== false;
}

/** The first value of a result. */
export function one(result: LuaResult): LuaValue {
  return Array.isArray(result) ? (result[0] as LuaValue) : (result as LuaValue);
}

export function many(result: LuaResult): readonly LuaValue[] {
  return Array.isArray(result) ? (result as readonly LuaValue[]) : [result as LuaValue];
}

export function typeOf(value: LuaValue): string {
  if (value === undefined) return 'nil';
  if (value instanceof LuaTable) return 'table';
  return typeof value === 'object' ? 'userdata' : typeof value;
}

export function index(value: LuaValue, key: LuaValue): LuaValue {
  if (value instanceof LuaTable) return value.get(key);
  throw new LuaError(`attempt to index a ${typeOf(value)} value`);
}

export function setIndex(value: LuaValue, key: LuaValue, item: LuaValue): void {
  if (!(value instanceof LuaTable)) throw new LuaError(`attempt to index a ${typeOf(value)} value`);
  value.set(key, item);
}

export function callable(value: LuaValue): LuaFunction {
  if (typeof value === 'function') return value;
  throw new LuaError(`attempt to call a ${typeOf(value)} value`);
}

export function lengthOf(value: LuaValue): number {
  if (typeof value === 'string') return value.length;
  if (value instanceof LuaTable) return value.items.length;
  throw new LuaError(`attempt to get length of a ${typeOf(value)} value`);
}

/** A text as a number, or `undefined` where it is none. */
export function numberIn(text: string): number | undefined {
  if (/^\d+$/.test(text)) return Number(text);
  if (/^[ \t-\r]*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?[ \t-\r]*$/.test(text)) return Number(text);
  const [, sign, digits] = /^[ \t-\r]*([-+]?)(0[xX][\dA-Fa-f]+)[ \t-\r]*$/.exec(text) ?? [];
  if (digits === undefined) return undefined;
  return sign === '-' ? -Number(digits) : Number(digits);
}

/** An operand of arithmetic. */
export function numberOf(value: LuaValue): number {
  if (typeof value === 'number') return value;
  const number = typeof value === 'string' ? numberIn(value) : undefined;
  if (number === undefined) throw new LuaError(`attempt to perform arithmetic on a ${typeOf(value)} value`);
  return number;
}

/** An operand of `..`. */
export function textOf(value: LuaValue): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return formatG(value, 14);
  throw new LuaError(`attempt to concatenate a ${typeOf(value)} value`);
}

export function modulo(a: number, b: number): number {
  const rest = a % b;
  return rest * b < 0 ? rest + b : rest;
}

export function less(a: LuaValue, b: LuaValue): boolean {
  expectComparable(a, b);
  return (a as number) < (b as number);
}

export function lessOrEqual(a: LuaValue, b: LuaValue): boolean {
  expectComparable(a, b);
  return (a as number) <= (b as number);
}

function expectComparable(a: LuaValue, b: LuaValue): void {
  if (typeof a === typeof b && (typeof a === 'number' || typeof a === 'string')) return;
  throw new LuaError(`attempt to compare ${typeOf(a)} with ${typeOf(b)}`);
}

export function greater(a: LuaValue, b: LuaValue): boolean {
  expectComparable(a, b);
  return (a as number) > (b as number);
}

export function greaterOrEqual(a: LuaValue, b: LuaValue): boolean {
  expectComparable(a, b);
  return (a as number) >= (b as number);
}

export function missingGlobal(name: string): never {
  throw new LuaError(`Script attempted to access nonexistent global variable '${name}'`);
}
