import { mutate } from './mutate.mjs';

import { ENTRY_POINTS } from '../../../tools/entry-points.mjs';

const ROOT = new URL('../../../', import.meta.url);
let mutant;

/** @param {import('../index.d.mts').Mutant} which */
export function initialize(which) {
  mutant = which;
}

/**
 * The modules that the library is made of, in place of the built files.
 *
 * @type {import('node:module').ResolveHook}
 */
export function resolve(specifier, context, next) {
  const entry = ENTRY_POINTS.find((it) => it.specifier === specifier);
  if (!entry) return next(specifier, context);
  return { url: new URL(`${entry.module}.js`, ROOT).href, format: 'module', shortCircuit: true };
}

/** @type {import('node:module').LoadHook} */
export async function load(url, context, next) {
  const loaded = await next(url, context);
  if (!url.endsWith(`/${mutant.file}`)) return loaded;
  return { ...loaded, source: mutate(Buffer.from(loaded.source).toString(), mutant) };
}
