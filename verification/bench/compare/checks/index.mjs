import { LEASES } from './leases.mjs';
import { WAITING } from './waiting.mjs';

/**
 * The script asks each library these questions, in the order of the page's rows. `says` is the row's head. `run` gets the library,
 * opens it as often as it needs a process, and answers with the text of a cell. `ifItDies` is the answer of a check that ends its process.
 *
 * @type {Record<string, { says: string, run: (given: any) => Promise<string>, ifItDies?: string }>}
 */
export const CHECKS = { ...LEASES, ...WAITING };
