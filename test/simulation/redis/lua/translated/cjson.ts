import { formatG } from '../../resp/numbers.js';
import { quoted } from '../cjson.js';
import { LuaError, LuaTable, NULL, tableOf, textOf, type LuaValue } from './values.js';

export const CJSON = {
  cjson_decode(text: LuaValue): LuaValue {
    let value: unknown;
    const isPlain = isAscii(text);
    try {
      value = JSON.parse(isPlain ? text : Buffer.from(textOf(text), 'latin1').toString('utf8'));
    } catch {
      throw new LuaError('Expected value but found invalid token');
    }
    // An escape may stand for a character of several bytes.
    return luaOf(value, isPlain && !text.includes('\\u') ? asItIs : bytesOf);
  },
  cjson_encode: jsonOf,
};

function isAscii(text: LuaValue): text is string {
  // eslint-disable-next-line no-control-regex
  return typeof text === 'string' && /^[\u0000-\u007f]*$/.test(text);
}

function luaOf(value: unknown, textOfBytes: (text: string) => string): LuaValue {
  if (typeof value === 'string') return textOfBytes(value);
  if (value === null) return NULL;
  if (typeof value !== 'object') return value as number | boolean;
  if (Array.isArray(value)) return tableOf(value.map((item) => luaOf(item, textOfBytes)));
  const table = new LuaTable();
  for (const [name, item] of Object.entries(value as object))
    table.fields.set(textOfBytes(name), luaOf(item, textOfBytes));
  return table;
}

function asItIs(text: string): string {
  return text;
}

function bytesOf(text: string): string {
  return isAscii(text) ? text : Buffer.from(text, 'utf8').toString('latin1');
}

function jsonOf(value: LuaValue): string {
  if (typeof value === 'string') return quoted(value);
  if (typeof value === 'number') return formatG(value, 14);
  if (typeof value === 'boolean') return String(value);
  if (!(value instanceof LuaTable)) return 'null';
  const { items, fields } = value;
  if (fields.size === 0 && items.length > 0) return `[${items.map(jsonOf).join(',')}]`;
  const texts = Array.from(fields, ([name, item]) => {
    if (typeof name !== 'string') throw new Error('A table with gaps has no JSON.');
    return `${quoted(name)}:${jsonOf(item)}`;
  });
  return `{${texts.join(',')}}`;
}
