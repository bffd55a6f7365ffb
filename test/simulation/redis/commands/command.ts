import type { Channels } from '../data/channels.js';
import type { Keyspace } from '../data/keyspace.js';
import { ErrorReply, type Reply } from '../resp/reply.js';

/** What a command may read and change. */
export interface Surroundings {
  readonly data: Keyspace;
  readonly channels: Channels;
  /** The server's clock in microseconds. It stands still while a script runs. */
  readonly micros: () => number;
}

/** A command that a script may call, too. */
export interface Command {
  /** How many words it takes, its name included; at least so many where it is negative. */
  readonly arity: number;
  /** Refused by a replica. */
  readonly writes?: true;
  /** Refused by a server without memory. */
  readonly needsMemory?: true;
  /** @throws ErrorReply */
  run(args: readonly string[], surroundings: Surroundings): Reply;
}

export type Commands = Readonly<Record<string, Command>>;

export function hasArity({ arity }: Pick<Command, 'arity'>, words: number): boolean {
  return arity >= 0 ? words === arity : words >= -arity;
}

export function wrongNumberOfArguments(name: string): ErrorReply {
  return new ErrorReply(`ERR wrong number of arguments for '${name}' command`);
}

export function syntaxError(): ErrorReply {
  return new ErrorReply('ERR syntax error');
}

export function notAnInteger(): ErrorReply {
  return new ErrorReply('ERR value is not an integer or out of range');
}
