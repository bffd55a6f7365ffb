import { formatG } from '../../resp/numbers.js';
import { regExpOf } from './patterns.js';
import {
  callable,
  isTrue,
  lengthOf,
  LuaError,
  LuaTable,
  many,
  numberIn,
  numberOf,
  one,
  typeOf,
  type LuaResult,
  type LuaValue,
} from './values.js';

/** The functions of Lua and Redis that scripts use, by the names that they have in a translated script. */
export const LIBRARY = {
  tonumber(value: LuaValue, base?: LuaValue): LuaValue {
    if (base !== undefined) return wholeIn(textArgument(value), numberOf(base));
    if (typeof value === 'number') return value;
    return typeof value === 'string' ? numberIn(value) : undefined;
  },
  tostring(value: LuaValue): string {
    if (typeof value === 'string') return value;
    if (typeof value === 'number') return formatG(value, 14);
    if (typeof value === 'boolean') return String(value);
    if (value === undefined) return 'nil';
    throw new Error(`A ${typeOf(value)} has no text.`);
  },
  type: typeOf,
  pcall(run: LuaValue, ...args: LuaValue[]): LuaResult {
    try {
      return [true, ...many(callable(run)(...args))];
    } catch (error) {
      if (!(error instanceof LuaError)) throw error;
      return [false, error.value];
    }
  },
  unpack(table: LuaValue): LuaResult {
    return [...tableArgument(table).items];
  },
  math_max: (...numbers: LuaValue[]): number => Math.max(...numbers.map(numberOf)),
  math_min: (...numbers: LuaValue[]): number => Math.min(...numbers.map(numberOf)),
  math_floor: (number: LuaValue): number => Math.floor(numberOf(number)),
  table_concat(table: LuaValue, between: LuaValue = ''): string {
    return tableArgument(table).items.map(textArgument).join(textArgument(between));
  },
  string_sub(value: LuaValue, from: LuaValue, to: LuaValue = -1): string {
    const text = textArgument(value);
    const [first, last] = [numberOf(from), numberOf(to)];
    const start = first < 0 ? Math.max(0, text.length + first) : Math.max(0, first - 1);
    const end = last < 0 ? text.length + last + 1 : last;
    return end <= start ? '' : text.slice(start, end);
  },
  string_byte(value: LuaValue, at: LuaValue = 1): LuaResult {
    const code = textArgument(value).charCodeAt(numberOf(at) - 1);
    return Number.isNaN(code) ? [] : code;
  },
  string_char: (...codes: LuaValue[]): string => String.fromCharCode(...codes.map(numberOf)),
  string_len: (value: LuaValue): number => lengthOf(textArgument(value)),
  string_find(value: LuaValue, wanted: LuaValue, from: LuaValue = 1, isPlain?: LuaValue): LuaResult {
    const [text, pattern] = [textArgument(value), textArgument(wanted)];
    if (numberOf(from) !== 1) throw new Error('string.find is known from the first byte on alone.');
    if (isPlain !== undefined && isTrue(isPlain)) {
      const at = text.indexOf(pattern);
      return at < 0 ? undefined : [at + 1, at + pattern.length];
    }
    const found = regExpOf(pattern).exec(text);
    return found ? [found.index + 1, found.index + found[0].length, ...found.slice(1)] : undefined;
  },
  string_match(value: LuaValue, pattern: LuaValue): LuaResult {
    const found = regExpOf(textArgument(pattern)).exec(textArgument(value));
    if (!found) return undefined;
    return found.length === 1 ? found[0] : found.slice(1);
  },
  string_gsub(value: LuaValue, pattern: LuaValue, by: LuaValue): LuaResult {
    let count = 0;
    const text = textArgument(value).replace(regExpOf(textArgument(pattern)), (...found: unknown[]) => {
      count += 1;
      const captures = found.slice(
        0,
        found.findIndex((it) => typeof it === 'number'),
      ) as string[];
      return replacement(by, captures);
    });
    return [text, count];
  },
  string_format(value: LuaValue, ...args: LuaValue[]): string {
    let next = 0;
    return textArgument(value).replace(/%(%|[-+ #0]*\d*(?:\.\d+)?[A-Za-z])/g, (_, directive: string) =>
      directive === '%' ? '%' : formatted(directive, args[next++]),
    );
  },
  redis_error_reply(text: LuaValue): LuaTable {
    const message = textArgument(text).replace(/^-/, '');
    return LuaTable.withText('err', message.includes(' ') ? message : `ERR ${message}`);
  },
  redis_status_reply: (text: LuaValue): LuaTable => LuaTable.withText('ok', textArgument(text)),
};

function formatted(directive: string, value: LuaValue): string {
  switch (directive) {
    case '.0f':
      return numberOf(value).toFixed(0);
    case '09.0f':
    case '013.0f':
    case '016.0f':
      return numberOf(value).toFixed(0).padStart(Number.parseInt(directive), '0');
    case '02x':
      return numberOf(value).toString(16).padStart(2, '0');
    case 'd':
      return String(numberOf(value));
    case 's':
      return LIBRARY.tostring(value);
    default:
      throw new Error(
        `string.format of a script cannot be translated to JavaScript: %${directive} is not known.`,
      );
  }
}

/** @param captures the whole match first */
function replacement(by: LuaValue, captures: readonly string[]): string {
  const [match = '', ...groups] = captures;
  if (typeof by !== 'function')
    return textArgument(by).replace(/%(.)/g, (_, char: string) =>
      /\d/.test(char) ? (captures[Number(char)] ?? match) : char,
    );
  const value = one(by(...(groups.length > 0 ? groups : [match])));
  return isTrue(value) ? textArgument(value) : match;
}

function wholeIn(text: string, base: number): number | undefined {
  const number = Number.parseInt(text, base);
  return Number.isNaN(number) || number.toString(base) !== text.toLowerCase().replace(/^0+(?=.)/, '')
    ? undefined
    : number;
}

function textArgument(value: LuaValue): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return formatG(value, 14);
  throw new LuaError(
    `bad argument (string expected, got ${value === undefined ? 'no value' : typeOf(value)})`,
  );
}

function tableArgument(value: LuaValue): LuaTable {
  if (value instanceof LuaTable) return value;
  throw new LuaError(`bad argument (table expected, got ${typeOf(value)})`);
}
