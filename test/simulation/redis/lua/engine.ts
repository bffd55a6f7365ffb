import type { LuaState } from './fengari.types.js';
import { formatG } from '../resp/numbers.js';
import { ErrorReply, type Reply } from '../resp/reply.js';
import type { Caller, ScriptEngine } from './script-engine.js';
import { pushCjson } from './cjson.js';
import { bytesOf, lauxlib, lua, lualib, textOf } from './interpreter.js';
import { PRELUDE } from './prelude.js';
import { fieldAt, popReply, pushReply, pushText } from './values.js';

/** The status of fengari for an exception of JavaScript, which it drops. */
const NATIVE_ERROR = -1;
const [ERR, SOURCE, LINE] = ['err', 'source', 'line'].map(bytesOf) as [Uint8Array, Uint8Array, Uint8Array];

/** Runs scripts in an interpreter of Lua. They leave nothing behind in it, because they may not set globals. */
export class LuaEngine implements ScriptEngine {
  private readonly L: LuaState = lauxlib.luaL_newstate();
  private readonly chunks = new Map<string, number | ErrorReply>();
  private readonly onError: number;
  private call: Caller | undefined;
  private thrown: unknown;

  constructor() {
    const { L } = this;
    lualib.luaL_openlibs(L);
    this.setGlobal('cjson', () => pushCjson(L));
    this.setGlobal('redis', () => this.pushRedis());
    this.load(PRELUDE, '=prelude');
    lua.lua_pcall(L, 0, 1, 0);
    this.onError = lauxlib.luaL_ref(L, lua.LUA_REGISTRYINDEX);
  }

  compile(sha: string, source: string): ErrorReply | undefined {
    let chunk = this.chunks.get(sha);
    if (chunk === undefined) this.chunks.set(sha, (chunk = this.chunkOf(source)));
    return chunk instanceof ErrorReply ? chunk : undefined;
  }

  run(sha: string, keys: readonly string[], args: readonly string[], call: Caller): Reply {
    const { L } = this;
    this.setGlobal('KEYS', () => pushReply(L, keys));
    this.setGlobal('ARGV', () => pushReply(L, args));
    this.call = call;
    lua.lua_rawgeti(L, lua.LUA_REGISTRYINDEX, this.onError);
    lua.lua_rawgeti(L, lua.LUA_REGISTRYINDEX, this.chunks.get(sha) as number);
    const status = lua.lua_pcall(L, 0, 1, -2);
    if (status === NATIVE_ERROR)
      throw new Error(`A command of script ${sha} has thrown.`, { cause: this.thrown });
    const reply = status === 0 ? popReply(L) : this.popError(sha);
    lua.lua_settop(L, 0);
    return reply;
  }

  private chunkOf(source: string): number | ErrorReply {
    const { L } = this;
    if (this.load(source, '@user_script')) return lauxlib.luaL_ref(L, lua.LUA_REGISTRYINDEX);
    const why = textOf(lua.lua_tolstring(L, -1) as Uint8Array);
    lua.lua_settop(L, 0);
    return new ErrorReply(`ERR Error compiling script (new function): ${why}`);
  }

  private load(source: string, name: string): boolean {
    const bytes = bytesOf(source);
    return lauxlib.luaL_loadbuffer(this.L, bytes, bytes.length, bytesOf(name)) === 0;
  }

  private popError(sha: string): ErrorReply {
    const { L } = this;
    const at = lua.lua_gettop(L);
    const [err, source, line] = [ERR, SOURCE, LINE].map((name) => fieldAt(L, at, name));
    const where = source === undefined ? '' : ` script: ${sha}, on ${source}:${line}.`;
    return new ErrorReply(`${err ?? 'ERR unknown error'}${where}`);
  }

  /** Past the guard of globals. */
  private setGlobal(name: string, push: () => void): void {
    const { L } = this;
    lua.lua_pushglobaltable(L);
    pushText(L, name);
    push();
    lua.lua_rawset(L, -3);
    lua.lua_pop(L, 1);
  }

  private pushRedis(): void {
    const { L } = this;
    lua.lua_createtable(L, 0, 4);
    for (const [name, raises] of [
      ['call', true],
      ['pcall', false],
    ] as const) {
      pushText(L, name);
      lua.lua_pushjsfunction(L, (state) => this.onCall(state, raises));
      lua.lua_rawset(L, -3);
    }
  }

  private onCall(L: LuaState, raises: boolean): number {
    const words: string[] = [];
    for (let i = 1; i <= lua.lua_gettop(L); i++) words.push(argumentAt(L, i));
    let reply: Reply;
    try {
      reply = (this.call as Caller)(words);
    } catch (error) {
      this.thrown = error;
      throw error;
    }
    pushReply(L, reply);
    return raises && reply instanceof ErrorReply ? lua.lua_error(L) : 1;
  }
}

function argumentAt(L: LuaState, at: number): string {
  const type = lua.lua_type(L, at);
  if (type === lua.LUA_TNUMBER) return formatG(lua.lua_tonumber(L, at), 17);
  if (type === lua.LUA_TSTRING) return textOf(lua.lua_tolstring(L, at) as Uint8Array);
  pushReply(L, new ErrorReply('ERR Lua redis lib command arguments must be strings or integers'));
  return lua.lua_error(L);
}
