/**
 * fengari, which is Lua 5.3, with the numbers of Lua 5.1 as in Redis. Numbers are doubles, whether they are written in a
 * script or read from a text, and their texts have 14 digits. Lengths and positions stay integers of 32 bits, which no
 * script can tell apart.
 */
import { createRequire } from 'node:module';
import { formatG } from '../resp/numbers.js';
import type { Fengari, LuaConf, LuaObjects } from './fengari.types.js';

const load = createRequire(import.meta.url);

// First, because it and the settings load each other.
load('fengari/src/defs.js');
const settings = load('fengari/src/luaconf.js') as LuaConf;
settings.LUA_COMPAT_FLOATSTRING = true;
settings.lua_number2str = (value) => formatG(value, 14);

export const { lua, lauxlib, lualib } = load('fengari') as Fengari;

const objects = load('fengari/src/lobject.js') as LuaObjects;
const read = objects.luaO_str2num;
objects.luaO_str2num = (text, into) => {
  const length = read(text, into);
  if (length > 0 && into.ttisinteger()) into.setfltvalue(into.value);
  return length;
};

/** The bytes of a byte string. */
export function bytesOf(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

export function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
}
