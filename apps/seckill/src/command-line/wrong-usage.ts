import type { Command } from './command.js';
import { usage } from './usage.js';

/** An error for whoever called a program: first what is wrong, then all that it understands. */
export function wrongUsage(command: Command, problem: string): Error {
  return new Error(`${problem}\n\n${usage(command)}`);
}
