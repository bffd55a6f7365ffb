import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { TOGETHER } from '../lanes.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Runs the suites that `test/lanes.mjs` lists under this name as parts of the suite that calls this. */
export async function runSuites(name: string): Promise<void> {
  const parts = TOGETHER[name] ?? [];
  await runFiles('test', '-spec.ts', (file) => parts.some((part) => file.startsWith(part)));
}

/**
 * Runs the specs below a folder as parts of the suite that calls this.
 *
 * @param folder from the root of the repository
 * @param isPart which of the specs there; default: all
 */
export async function runSpecs(folder: string, isPart = (_spec: string): boolean => true): Promise<void> {
  await runFiles(folder, '.spec.ts', isPart);
}

/**
 * Jest imports Nest and the library anew for each suite, which takes longer than many tests do.
 *
 * The files share one module registry. A hook outside of a `describe` would run for the tests of all of them, so it is refused.
 */
async function runFiles(folder: string, ending: string, isPart: (file: string) => boolean): Promise<void> {
  const files = readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => file.endsWith(ending) && !/(^|\/)(node_modules|dist)\//.test(file) && isPart(file));
  if (files.length === 0) throw new Error(`There is no *${ending} in ${folder} for this suite.`);
  for (const file of files.sort()) {
    const path = join(ROOT, folder, file);
    if (/^(before|after)(Each|All)\(/m.test(readFileSync(path, 'utf8'))) {
      throw new Error(`${folder}/${file} has a hook outside of a describe: move it into one.`);
    }
    await import(pathToFileURL(path).href);
  }
}
