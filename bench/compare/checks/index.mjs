import { LEASES } from './leases.mjs';
import { WAITING } from './waiting.mjs';

/**
 * What the page asks of each library, in the order of its rows. `says` is the row's head. `run` gets the library, which it opens as
 * often as it needs a process, and answers with the text of a cell. `ifItDies` is the answer of a check that ends its process.
 *
 * @type {Record<string, { says: string, run: (given: any) => Promise<string>, ifItDies?: string }>}
 */
export const CHECKS = { ...LEASES, ...WAITING };
