import { createRequire } from 'node:module';
import { join } from 'node:path';
import type ts from 'typescript';

export type TypeScript = typeof ts;

/**
 * The compiler of the application, else that of the Nest CLI which runs this command, because this package has none of
 * its own.
 *
 * TypeScript 7 has no parser that JavaScript programs can call. Where it is installed, the next compiler is tried.
 */
export function loadTypeScript(folder: string, program = process.argv[1]): TypeScript | undefined {
  const inFolder = createRequire(join(folder, 'package.json'));
  const lookups = [
    () => inFolder,
    () => createRequire(inFolder.resolve('@nestjs/cli/package.json')),
    () => createRequire(inFolder.resolve('@nestjs/schematics/package.json')),
    () => createRequire(program ?? ''),
  ];
  for (const lookup of lookups) {
    const found = attempt(lookup);
    if (found) return found;
  }
  return undefined;
}

function attempt(lookup: () => NodeJS.Require): TypeScript | undefined {
  try {
    const found = lookup()('typescript') as Partial<TypeScript>;
    return typeof found.createSourceFile === 'function' ? (found as TypeScript) : undefined;
  } catch {
    return undefined;
  }
}
