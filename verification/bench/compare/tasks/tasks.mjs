import { CALLERS } from './questions/callers.mjs';
import { HOLDERS } from './questions/holders.mjs';

/**
 * What a team wants to do, in the order of the page's rows. `says` is the row's head. `run` gets the system, opens it as often as it
 * needs a process, and answers with the text of a cell. `documented` has the cells of what cannot run here, by column, each with its
 * source.
 */
export const TASKS = { ...CALLERS, ...HOLDERS };
