import type { Command } from './command.js';
import { usage } from './usage.js';

/** An error for the user of a program: first the mistake, then the usage. */
export function wrongUsage(command: Command, problem: string): Error {
  return new Error(`${problem}\n\n${usage(command)}`);
}
