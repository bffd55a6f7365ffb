import { ErrorReply } from '../resp/reply.js';
import { wrongNumberOfArguments, hasArity, type Command } from './command.js';

/** Commands that are named by two words. */
const CONTAINERS: ReadonlySet<string> = new Set(['client', 'pubsub', 'script']);

interface Named {
  /** In small letters, as `get` or `pubsub|numsub`. */
  readonly name: string;
  readonly args: readonly string[];
}

/** Parts a command's name from its arguments. */
export function named([first = '', ...args]: readonly string[]): Named {
  const name = first.toLowerCase();
  const [second, ...rest] = args;
  if (!CONTAINERS.has(name) || second === undefined) return { name, args };
  return { name: `${name}|${second.toLowerCase()}`, args: rest };
}

/** @throws ErrorReply for a command that does not exist, and for a wrong number of words */
export function checked<C extends Pick<Command, 'arity'>>(
  command: C | undefined,
  words: readonly string[],
): C {
  const { name } = named(words);
  const [first = '', second = '', ...rest] = words;
  const container = name.split('|')[0] as string;
  if (CONTAINERS.has(name)) throw wrongNumberOfArguments(name);
  if (!command && container !== name) {
    throw new ErrorReply(`ERR unknown subcommand '${second}'. Try ${container.toUpperCase()} HELP.`);
  }
  if (!command) {
    const beginning = (words.length > 1 ? [second, ...rest] : []).map((word) => `'${word}' `).join('');
    throw new ErrorReply(`ERR unknown command '${first}', with args beginning with: ${beginning}`);
  }
  if (!hasArity(command, words.length - (container === name ? 0 : 1))) throw wrongNumberOfArguments(name);
  return command;
}
