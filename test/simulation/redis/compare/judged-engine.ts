import assert from 'node:assert/strict';
import { ErrorReply, type Reply } from '../resp/reply.js';
import { LuaEngine } from '../lua/engine.js';
import type { Caller, ScriptEngine } from '../lua/script-engine.js';
import { TranslatedEngine } from '../lua/translated/translated-engine.js';

interface Noted {
  readonly words: readonly string[];
  readonly reply: Reply;
}

/**
 * Runs each script as its translation, and then in the interpreter, which gets the replies that the translation got. Both must send
 * the same commands in the same order, and give the same reply.
 */
export class JudgedEngine implements ScriptEngine {
  runs = 0;
  private readonly interpreter = new LuaEngine();
  private readonly translated = new TranslatedEngine();

  compile(sha: string, source: string): ErrorReply | undefined {
    const failure = this.interpreter.compile(sha, source);
    if (!failure) this.translated.compile(sha, source);
    return failure;
  }

  run(sha: string, keys: readonly string[], args: readonly string[], call: Caller): Reply {
    this.runs += 1;
    const noted: Noted[] = [];
    const reply = this.translated.run(sha, keys, args, (words) => {
      const it = { words, reply: call(words) };
      noted.push(it);
      return it.reply;
    });
    const commands: (readonly string[])[] = [];
    const judgement = this.interpreter.run(sha, keys, args, (words) => {
      commands.push(words);
      const it = noted[commands.length - 1];
      return it ? it.reply : new ErrorReply('ERR the translation sent fewer commands');
    });
    assert.deepEqual(
      noted.map(({ words }) => words),
      commands,
    );
    assert.deepEqual(reply, judgement);
    return reply;
  }
}
