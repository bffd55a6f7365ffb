import { mutate } from './mutate.mjs';

let mutant;

/** @param {import('../index.d.mts').Mutant} which */
export function initialize(which) {
  mutant = which;
}

/** @type {import('node:module').LoadHook} */
export async function load(url, context, next) {
  const loaded = await next(url, context);
  if (!url.endsWith(`/${mutant.file}`)) return loaded;
  return { ...loaded, source: mutate(Buffer.from(loaded.source).toString(), mutant) };
}
