import type { Command } from '../commands/command.js';
import { ErrorReply } from '../resp/reply.js';

/** Why a server that runs refuses commands, in the order in which it checks. */
export class Refusals {
  isLoading = false;
  isReplica = false;
  isOutOfMemory = false;
  /** Commands that no user may run, in small letters. */
  readonly denied = new Set<string>();

  /** Runs commands as a replica answers them. */
  asReplica<Result>(run: () => Result): Result {
    const before = this.isReplica;
    this.isReplica = true;
    try {
      return run();
    } finally {
      this.isReplica = before;
    }
  }

  /** For a command of a client. */
  refusal(name: string, command: Pick<Command, 'writes' | 'needsMemory'>): ErrorReply | undefined {
    if (this.denied.has(name))
      return new ErrorReply(`NOPERM this user has no permissions to run the '${name}' command`);
    if (this.isOutOfMemory && command.needsMemory) return outOfMemory();
    if (this.isReplica && command.writes) return readOnly();
    if (this.isLoading && !WHILE_LOADING.has(name))
      return new ErrorReply('LOADING Redis is loading the dataset in memory');
    return undefined;
  }

  /** For a command of a script. @param hasWritten whether an earlier command of the same script may have written */
  refusalInScript(name: string, command: Command, hasWritten: boolean): ErrorReply | undefined {
    if (this.denied.has(name))
      return new ErrorReply("ERR The user executing the script can't run this command or subcommand");
    if (this.isReplica && command.writes) return readOnly();
    // A script that has begun to write is not stopped halfway.
    return this.isOutOfMemory && command.needsMemory && !hasWritten ? outOfMemory() : undefined;
  }
}

const WHILE_LOADING: ReadonlySet<string> = new Set(
  'hello auth select client info role subscribe unsubscribe publish pubsub time quit command'.split(' '),
);

function outOfMemory(): ErrorReply {
  return new ErrorReply("OOM command not allowed when used memory > 'maxmemory'.");
}

function readOnly(): ErrorReply {
  return new ErrorReply("READONLY You can't write against a read only replica.");
}
