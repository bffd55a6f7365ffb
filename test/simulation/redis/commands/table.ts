import { hashCommands } from './hashes.js';
import { keyCommands } from './keys.js';
import { otherCommands } from './others.js';
import { sortedSetCommands } from './sorted-sets.js';
import { stringCommands } from './strings.js';
import type { Command } from './command.js';

/** The commands that scripts may call, by name in small letters. */
export const COMMANDS: ReadonlyMap<string, Command> = new Map(
  Object.entries({
    ...keyCommands,
    ...stringCommands,
    ...hashCommands,
    ...sortedSetCommands,
    ...otherCommands,
  }),
);
