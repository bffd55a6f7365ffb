import { compileFunction } from 'node:vm';
import { formatG } from '../../resp/numbers.js';
import { Double, ErrorReply, MapReply, Push, ScoredReply, Status, type Reply } from '../../resp/reply.js';
import type { Caller, ScriptEngine } from '../script-engine.js';
import { CJSON } from './cjson.js';
import { LIBRARY } from './library.js';
import { javaScriptOf } from './translate.js';
import * as values from './values.js';
import { LuaError, LuaTable, one, type LuaResult, type LuaValue } from './values.js';

type Script = (keys: LuaTable, args: LuaTable) => LuaResult;

/** An exception of the simulated server itself, which no script may catch. */
class CommandFailed extends Error {}

/**
 * Runs scripts that were translated to JavaScript once, which takes a fraction of the interpreter's time. It knows the Lua of the
 * scripts of this library. `compare.e2e-spec.ts` compares it with the interpreter.
 */
export class TranslatedEngine implements ScriptEngine {
  private readonly scripts = new Map<string, Script>();
  private caller: Caller = () => null;

  /** @throws TranslationError for Lua that it does not know */
  compile(sha: string, source: string): undefined {
    if (!this.scripts.has(sha)) this.scripts.set(sha, this.translated(source));
  }

  run(sha: string, keys: readonly string[], args: readonly string[], call: Caller): Reply {
    this.caller = call;
    try {
      return replyOf(
        one((this.scripts.get(sha) as Script)(new LuaTable([...keys]), new LuaTable([...args]))),
      );
    } catch (error) {
      if (error instanceof CommandFailed)
        throw new Error(`A command of script ${sha} has thrown.`, { cause: error.cause });
      if (error instanceof LuaError) return errorReplyOf(error, sha);
      throw error;
    }
  }

  private translated(source: string): Script {
    const names = {
      ...values,
      ...LIBRARY,
      ...CJSON,
      redis_call: (line: number, words: readonly LuaValue[]): LuaValue => {
        const reply = this.replyTo(line, words);
        if (reply instanceof ErrorReply) throw new LuaError(LuaTable.withText('err', reply.message), line);
        return valueOf(reply);
      },
      redis_pcall: (line: number, words: readonly LuaValue[]): LuaValue => valueOf(this.replyTo(line, words)),
    };
    const make = compileFunction(javaScriptOf(source), Object.keys(names)) as (...all: unknown[]) => Script;
    return make(...Object.values(names));
  }

  private replyTo(line: number, args: readonly LuaValue[]): Reply {
    const words = ownArray(args, (arg) => wordOf(arg, line));
    try {
      return this.caller(words);
    } catch (error) {
      throw new CommandFailed('', { cause: error });
    }
  }
}

/**
 * The script runs in a context of its own, whose arrays are not ours. A loop, because `Array.from` takes three times as long and a script
 * runs ten commands.
 */
function ownArray<Item, Own>(items: readonly Item[], ownOf: (item: Item) => Own): Own[] {
  const own: Own[] = [];
  for (let i = 0; i < items.length; i++) own.push(ownOf(items[i] as Item));
  return own;
}

function wordOf(value: LuaValue, line: number): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return formatG(value, 17);
  const text = 'ERR Lua redis lib command arguments must be strings or integers';
  throw new LuaError(LuaTable.withText('err', text), line);
}

/** A reply as a script sees it. */
function valueOf(reply: Reply): LuaValue {
  if (typeof reply === 'number' || typeof reply === 'string') return reply;
  if (reply === null) return false;
  if (reply instanceof Status) return LuaTable.withText('ok', reply.text);
  if (reply instanceof ErrorReply) return LuaTable.withText('err', reply.message);
  if (reply instanceof Double) return formatG(reply.value, 17);
  if (reply instanceof MapReply || reply instanceof ScoredReply) return new LuaTable(reply.flat.map(valueOf));
  if (reply instanceof Push) return new LuaTable(reply.items.map(valueOf));
  return new LuaTable(reply.map(valueOf));
}

/** The reply that a script gives with this value. */
function replyOf(value: LuaValue): Reply {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return Math.trunc(value) + 0;
  if (typeof value === 'boolean') return value ? 1 : null;
  if (!(value instanceof LuaTable)) return null;
  const [error, status] = [value.fields.get('err'), value.fields.get('ok')];
  if (typeof error === 'string') return new ErrorReply(error);
  if (typeof status === 'string') return new Status(status);
  return ownArray(value.items, replyOf);
}

function errorReplyOf({ value, line }: LuaError, sha: string): ErrorReply {
  if (!(value instanceof LuaTable)) return new ErrorReply(`ERR ${values.textOf(value)} script: ${sha}`);
  const error = value.fields.get('err');
  const where = line === undefined ? '' : ` script: ${sha}, on @user_script:${line}.`;
  return new ErrorReply(`${typeof error === 'string' ? error : 'ERR unknown error'}${where}`);
}
