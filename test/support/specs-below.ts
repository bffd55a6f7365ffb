import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/**
 * Runs the specs below a folder as parts of the suite that calls this. Jest imports Nest and the library anew for each suite,
 * which takes longer than most specs do.
 *
 * The specs share one module registry. A hook outside of a `describe` would run for the tests of all of them, so it is refused.
 *
 * @param folder from the root of the repository
 * @param isPart which of the specs there; default: all
 */
export async function specsBelow(folder: string, isPart = (_spec: string): boolean => true): Promise<void> {
  const specs = readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => file.endsWith('.spec.ts') && !/(^|\/)(node_modules|dist)\//.test(file) && isPart(file));
  if (specs.length === 0) throw new Error(`There is no spec below ${folder} for this suite.`);
  for (const spec of specs.sort()) {
    const path = join(ROOT, folder, spec);
    if (/^(before|after)(Each|All)\(/m.test(readFileSync(path, 'utf8'))) {
      throw new Error(`${folder}/${spec} has a hook outside of a describe: move it into one.`);
    }
    await import(pathToFileURL(path).href);
  }
}
