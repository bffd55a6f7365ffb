import type { Surroundings } from '../commands/command.js';
import type { Replicas } from '../data/replicas.js';
import type { Reply } from '../resp/reply.js';
import type { Refusals } from './refusals.js';
import type { Scripting } from './scripting.js';

/** Implemented by `RedisServer`: what its clients use. */
export interface Serving extends Surroundings {
  readonly scripting: Scripting;
  readonly refusals: Refusals;
  readonly replicas: Replicas;
  /** Runs something after so many ms. @returns cancels that */
  readonly after: (ms: number, run: () => void) => () => void;
  /** A client's command is executed now. */
  noteCommand(client: number, words: readonly string[]): void;
  /** A client is told that its connection leads to a replica. */
  noteReadOnly(): void;
  /** A client is told of fewer replicas than it waited for. */
  noteTooFew(): void;
  /** A command has been executed. @returns the new length of the journal if it has written */
  commit(): number | undefined;
  info(): string;
  role(): Reply;
}
