/** The part of fengari that the simulated Redis uses. It has no types of its own. */
export interface LuaState {
  readonly opaque: unique symbol;
}

type LuaFunction = (L: LuaState) => number;

/** Settings that fengari reads once, when it is loaded. */
export interface LuaConf {
  LUA_COMPAT_FLOATSTRING: boolean;
  lua_number2str: (value: number) => string;
}

/** A Lua value in its slot. */
interface TValue {
  readonly value: number;
  ttisinteger(): boolean;
  setfltvalue(value: number): void;
}

export interface LuaObjects {
  luaO_str2num: (text: Uint8Array, into: TValue) => number;
}

export interface Fengari {
  readonly lua: {
    readonly LUA_REGISTRYINDEX: number;
    readonly LUA_TNIL: number;
    readonly LUA_TBOOLEAN: number;
    readonly LUA_TNUMBER: number;
    readonly LUA_TSTRING: number;
    readonly LUA_TTABLE: number;
    lua_createtable(L: LuaState, items: number, fields: number): void;
    lua_error(L: LuaState): never;
    lua_gettop(L: LuaState): number;
    lua_next(L: LuaState, index: number): number;
    lua_pcall(L: LuaState, args: number, results: number, handler: number): number;
    lua_pop(L: LuaState, count: number): void;
    lua_pushboolean(L: LuaState, value: boolean): void;
    lua_pushjsfunction(L: LuaState, run: LuaFunction): void;
    lua_pushlightuserdata(L: LuaState, value: unknown): void;
    lua_pushnil(L: LuaState): void;
    lua_pushnumber(L: LuaState, value: number): void;
    lua_pushstring(L: LuaState, bytes: Uint8Array): void;
    lua_pushvalue(L: LuaState, index: number): void;
    lua_rawget(L: LuaState, index: number): number;
    lua_rawgeti(L: LuaState, index: number, item: number): number;
    lua_rawset(L: LuaState, index: number): void;
    lua_rawseti(L: LuaState, index: number, item: number): void;
    lua_pushglobaltable(L: LuaState): void;
    lua_remove(L: LuaState, index: number): void;
    lua_settop(L: LuaState, index: number): void;
    lua_toboolean(L: LuaState, index: number): boolean;
    lua_tolstring(L: LuaState, index: number): Uint8Array | null;
    lua_tonumber(L: LuaState, index: number): number;
    lua_touserdata(L: LuaState, index: number): unknown;
    lua_type(L: LuaState, index: number): number;
  };
  readonly lauxlib: {
    luaL_loadbuffer(L: LuaState, source: Uint8Array, length: number, name: Uint8Array): number;
    luaL_newstate(): LuaState;
    luaL_ref(L: LuaState, table: number): number;
  };
  readonly lualib: { luaL_openlibs(L: LuaState): void };
}
