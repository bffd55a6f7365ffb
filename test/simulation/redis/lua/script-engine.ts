import type { ErrorReply, Reply } from '../resp/reply.js';

/** Runs a command of a script. Returns an `ErrorReply` and does not throw it. */
export type Caller = (words: readonly string[]) => Reply;

/** Runs the scripts of all simulated servers. A script is compiled once, and leaves nothing behind. */
export interface ScriptEngine {
  /** @returns why the script cannot be compiled, if so */
  compile(sha: string, source: string): ErrorReply | undefined;
  /** Runs a compiled script. Each of its commands goes to `call`. */
  run(sha: string, keys: readonly string[], args: readonly string[], call: Caller): Reply;
}
