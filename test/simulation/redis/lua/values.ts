import type { LuaState } from './fengari.types.js';
import { formatG } from '../resp/numbers.js';
import { Double, ErrorReply, MapReply, Push, ScoredReply, Status, type Reply } from '../resp/reply.js';
import { bytesOf, lua, textOf } from './interpreter.js';

const ERR = bytesOf('err');
const OK = bytesOf('ok');

export function pushText(L: LuaState, text: string): void {
  lua.lua_pushstring(L, bytesOf(text));
}

/** Pushes a table with one field. */
export function pushField(L: LuaState, name: Uint8Array, text: string): void {
  lua.lua_createtable(L, 0, 1);
  lua.lua_pushstring(L, name);
  pushText(L, text);
  lua.lua_rawset(L, -3);
}

/** Pushes a reply as a script sees it, in RESP2: null is false, a status or an error is a table with one field. */
export function pushReply(L: LuaState, reply: Reply): void {
  if (typeof reply === 'number') lua.lua_pushnumber(L, reply);
  else if (typeof reply === 'string') pushText(L, reply);
  else if (reply === null) lua.lua_pushboolean(L, false);
  else if (reply instanceof Status) pushField(L, OK, reply.text);
  else if (reply instanceof ErrorReply) pushField(L, ERR, reply.message);
  else if (reply instanceof Double) pushText(L, formatG(reply.value, 17));
  else pushItems(L, itemsOf(reply as Items));
}

type Items = readonly Reply[] | MapReply | ScoredReply | Push;

function itemsOf(reply: Items): readonly Reply[] {
  if (reply instanceof MapReply || reply instanceof ScoredReply) return reply.flat;
  return reply instanceof Push ? reply.items : reply;
}

function pushItems(L: LuaState, items: readonly Reply[]): void {
  lua.lua_createtable(L, items.length, 0);
  items.forEach((item, i) => {
    pushReply(L, item);
    lua.lua_rawseti(L, -2, i + 1);
  });
}

/** The reply that a script returns with the value at the top, which this removes. An array ends before its first nil. */
export function popReply(L: LuaState): Reply {
  const reply = replyAt(L, lua.lua_gettop(L));
  lua.lua_pop(L, 1);
  return reply;
}

function replyAt(L: LuaState, at: number): Reply {
  switch (lua.lua_type(L, at)) {
    case lua.LUA_TSTRING:
      return textOf(lua.lua_tolstring(L, at) as Uint8Array);
    case lua.LUA_TNUMBER:
      return Math.trunc(lua.lua_tonumber(L, at)) + 0;
    case lua.LUA_TBOOLEAN:
      return lua.lua_toboolean(L, at) ? 1 : null;
    case lua.LUA_TTABLE:
      return tableAt(L, at);
    default:
      return null;
  }
}

function tableAt(L: LuaState, at: number): Reply {
  const error = fieldAt(L, at, ERR);
  if (error !== undefined) return new ErrorReply(error);
  const status = fieldAt(L, at, OK);
  if (status !== undefined) return new Status(status);
  const items: Reply[] = [];
  for (let i = 1; lua.lua_rawgeti(L, at, i) !== lua.LUA_TNIL; i++) items.push(popReply(L));
  lua.lua_pop(L, 1);
  return items;
}

export function fieldAt(L: LuaState, at: number, name: Uint8Array): string | undefined {
  lua.lua_pushstring(L, name);
  lua.lua_rawget(L, at);
  const bytes = lua.lua_type(L, -1) === lua.LUA_TSTRING ? lua.lua_tolstring(L, -1) : null;
  lua.lua_pop(L, 1);
  return bytes === null ? undefined : textOf(bytes);
}
