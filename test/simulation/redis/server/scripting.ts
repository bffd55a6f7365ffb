import { createHash } from 'node:crypto';
import { hasArity, type Surroundings } from '../commands/command.js';
import { named } from '../commands/lookup.js';
import { COMMANDS } from '../commands/table.js';
import { LuaEngine } from '../lua/engine.js';
import type { ScriptEngine } from '../lua/script-engine.js';
import { wholeNumber } from '../resp/numbers.js';
import { ErrorReply, type Reply } from '../resp/reply.js';
import { notAnInteger } from '../commands/command.js';
import type { Refusals } from './refusals.js';

/** One for all servers of this process, so that each script is compiled once. */
const interpreter = new LuaEngine();

const NOT_IN_SCRIPTS: ReadonlySet<string> = new Set(
  'subscribe unsubscribe eval evalsha script|load script|exists script|flush hello auth wait quit'.split(' '),
);
/** By source: histories load the same few scripts again and again. */
const shas = new Map<string, string>();
const NO_SCRIPT = 'NOSCRIPT No matching script. Please use EVAL.';

/** The scripts that a server knows. */
export class Scripting {
  private readonly sources = new Map<string, string>();

  constructor(
    private readonly surroundings: Surroundings,
    private readonly refusals: Refusals,
    private readonly atOneMoment: <Result>(script: () => Result) => Result,
    private readonly engine: ScriptEngine = interpreter,
  ) {}

  eval(words: readonly string[]): Reply {
    const [source = '', ...rest] = words;
    return this.run(() => this.load(source), rest);
  }

  evalSha(words: readonly string[]): Reply {
    const [sha = '', ...rest] = words;
    const known = sha.toLowerCase();
    return this.run(() => {
      if (!this.sources.has(known)) throw new ErrorReply(NO_SCRIPT);
      return known;
    }, rest);
  }

  /** @returns 1 for each script that the server knows */
  exist(shas: readonly string[]): readonly number[] {
    return shas.map((sha) => Number(this.sources.has(sha.toLowerCase())));
  }

  flush(): void {
    this.sources.clear();
  }

  load(source: string): string {
    const sha = shaOf(source);
    const failure = this.engine.compile(sha, source);
    if (failure) throw failure;
    this.sources.set(sha, source);
    return sha;
  }

  private run(find: () => string, [number = '', ...words]: readonly string[]): Reply {
    const count = wholeNumber(number);
    if (count === undefined) throw notAnInteger();
    if (count > words.length) throw new ErrorReply("ERR Number of keys can't be greater than number of args");
    if (count < 0) throw new ErrorReply("ERR Number of keys can't be negative");
    let hasWritten = false;
    const sha = find();
    const call = (all: readonly string[]): Reply => {
      const { name, args } = named(all);
      const command = COMMANDS.get(name);
      if (!command) return new ErrorReply(unknownInScript(name));
      if (!hasArity(command, args.length + 1))
        return new ErrorReply('ERR Wrong number of args calling Redis command from script');
      const refusal = this.refusals.refusalInScript(name, command, hasWritten);
      if (refusal) return refusal;
      if (command.writes) hasWritten = true;
      try {
        return command.run(args, this.surroundings);
      } catch (error) {
        if (error instanceof ErrorReply) return error;
        throw error;
      }
    };
    return this.atOneMoment(() => this.engine.run(sha, words.slice(0, count), words.slice(count), call));
  }
}

function unknownInScript(name: string): string {
  if (name === '') return 'ERR Please specify at least one argument for this redis lib call';
  return NOT_IN_SCRIPTS.has(name)
    ? 'ERR This Redis command is not allowed from script'
    : 'ERR Unknown Redis command called from script';
}

function shaOf(source: string): string {
  const known = shas.get(source);
  if (known !== undefined) return known;
  const sha = createHash('sha1').update(source, 'latin1').digest('hex');
  shas.set(source, sha);
  return sha;
}
