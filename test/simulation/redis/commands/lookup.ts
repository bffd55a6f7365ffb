import { ErrorReply } from '../resp/reply.js';
import { wrongNumberOfArguments, hasArity, type Command } from './command.js';

/** Commands that are named by two words. */
const CONTAINERS: ReadonlySet<string> = new Set(['client', 'pubsub', 'script']);

export interface Named {
  /** In small letters, as `get` or `pubsub|numsub`. */
  readonly name: string;
  readonly args: readonly string[];
}

/** Parts a command's name from its arguments. */
export function named(words: readonly string[]): Named {
  const name = (words[0] ?? '').toLowerCase();
  const second = words[1];
  if (second === undefined || !CONTAINERS.has(name)) return { name, args: words.slice(1) };
  return { name: `${name}|${second.toLowerCase()}`, args: words.slice(2) };
}

/** @throws ErrorReply for a command that does not exist, and for a wrong number of words */
export function checked<C extends Pick<Command, 'arity'>>(
  command: C | undefined,
  words: readonly string[],
  { name }: Named = named(words),
): C {
  const [first = '', second = ''] = words;
  const container = name.split('|')[0] as string;
  if (CONTAINERS.has(name)) throw wrongNumberOfArguments(name);
  if (!command && container !== name) {
    throw new ErrorReply(`ERR unknown subcommand '${second}'. Try ${container.toUpperCase()} HELP.`);
  }
  if (!command) {
    const beginning = words
      .slice(1)
      .map((word) => `'${word}' `)
      .join('');
    throw new ErrorReply(`ERR unknown command '${first}', with args beginning with: ${beginning}`);
  }
  if (!hasArity(command, words.length - (container === name ? 0 : 1))) throw wrongNumberOfArguments(name);
  return command;
}
