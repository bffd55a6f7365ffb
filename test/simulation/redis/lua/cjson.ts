import type { LuaState } from './fengari.types.js';
import { formatG } from '../resp/numbers.js';
import { bytesOf, lua, textOf } from './interpreter.js';
import { pushText } from './values.js';

/** What `cjson.null` is in Lua. */
const NULL = { isNull: true };

/** Pushes a table with `cjson.decode`, `cjson.encode` and `cjson.null`. */
export function pushCjson(L: LuaState): void {
  lua.lua_createtable(L, 0, 3);
  const set = (name: string, push: () => void): void => {
    lua.lua_pushstring(L, bytesOf(name));
    push();
    lua.lua_rawset(L, -3);
  };
  set('decode', () => lua.lua_pushjsfunction(L, decode));
  set('encode', () => lua.lua_pushjsfunction(L, encode));
  set('null', () => lua.lua_pushlightuserdata(L, NULL));
}

function decode(L: LuaState): number {
  const bytes = lua.lua_tolstring(L, 1) ?? new Uint8Array();
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(bytes).toString('utf8'));
  } catch {
    pushText(L, 'Expected value but found invalid token');
    return lua.lua_error(L);
  }
  pushValue(L, value);
  return 1;
}

function pushValue(L: LuaState, value: unknown): void {
  if (typeof value === 'string') lua.lua_pushstring(L, new Uint8Array(Buffer.from(value, 'utf8')));
  else if (typeof value === 'number') lua.lua_pushnumber(L, value);
  else if (typeof value === 'boolean') lua.lua_pushboolean(L, value);
  else if (value === null) lua.lua_pushlightuserdata(L, NULL);
  else if (Array.isArray(value)) {
    lua.lua_createtable(L, value.length, 0);
    value.forEach((item, i) => {
      pushValue(L, item);
      lua.lua_rawseti(L, -2, i + 1);
    });
  } else {
    lua.lua_createtable(L, 0, 0);
    for (const [name, item] of Object.entries(value as object)) {
      lua.lua_pushstring(L, new Uint8Array(Buffer.from(name, 'utf8')));
      pushValue(L, item);
      lua.lua_rawset(L, -3);
    }
  }
}

function encode(L: LuaState): number {
  pushText(L, jsonAt(L, 1));
  return 1;
}

const ESCAPED: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '/': '\\/',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
};

export function quoted(text: string): string {
  const escape = (it: string): string =>
    ESCAPED[it] ?? `\\u${it.charCodeAt(0).toString(16).padStart(4, '0')}`;
  // eslint-disable-next-line no-control-regex
  return `"${text.replace(/["\\/\u0000-\u001f\u007f]/g, escape)}"`;
}

function jsonAt(L: LuaState, at: number): string {
  switch (lua.lua_type(L, at)) {
    case lua.LUA_TSTRING:
      return quoted(textOf(lua.lua_tolstring(L, at) as Uint8Array));
    case lua.LUA_TNUMBER:
      return formatG(lua.lua_tonumber(L, at), 14);
    case lua.LUA_TBOOLEAN:
      return String(lua.lua_toboolean(L, at));
    case lua.LUA_TTABLE:
      return tableAt(L, at);
    default:
      return 'null';
  }
}

/** A table whose keys are 1 to n is an array. */
function tableAt(L: LuaState, at: number): string {
  const items: string[] = [];
  const fields: string[] = [];
  let isArray = true;
  lua.lua_pushnil(L);
  while (lua.lua_next(L, at) !== 0) {
    const top = lua.lua_gettop(L);
    const value = jsonAt(L, top);
    if (lua.lua_type(L, top - 1) === lua.LUA_TNUMBER) {
      items[lua.lua_tonumber(L, top - 1) - 1] = value;
    } else {
      isArray = false;
      fields.push(`${quoted(textOf(lua.lua_tolstring(L, top - 1) as Uint8Array))}:${value}`);
    }
    lua.lua_pop(L, 1);
  }
  return isArray && items.length > 0 ? `[${items.join(',')}]` : `{${fields.join(',')}}`;
}
