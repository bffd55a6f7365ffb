import { readFileSync } from 'node:fs';

const ROOT = new URL('..', import.meta.url);
const { compilerOptions } = JSON.parse(readFileSync(new URL('tsconfig.json', ROOT), 'utf8'));

/**
 * The paths that applications import the library from, and the source of each, from `paths` of tsconfig.json.
 *
 * @type {readonly { specifier: string, name: string, source: string, module: string }[]} `nestjs-distributed-lock/redis`, its name `redis`
 * among the built files, its source, and its compiled module without `.js`, both from the root of the repository on
 */
export const ENTRY_POINTS = Object.entries(compilerOptions.paths).map(([specifier, [path]]) => {
  const source = path.replace(/^\.\//, '');
  const module = source.replace('libs/distributed-lock/src', 'dist/library').replace(/\.ts$/, '');
  return { specifier, name: specifier.split('/')[1] ?? 'index', source, module };
});
