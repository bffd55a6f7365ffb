import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const SRC = 'libs/distributed-lock/src';

/** What takes the exported names: the library, its specs, the tests and whoever measures the library. */
const texts = new Map(
  [SRC, 'libs/distributed-lock/schematics', 'test', 'verification'].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .map((file) => `${folder}/${file.replaceAll('\\', '/')}`)
      .filter((file) => /\.(ts|mjs)$/.test(file) && !file.includes('node_modules'))
      .map((file) => [file, readFileSync(join(ROOT, file), 'utf8')] as const),
  ),
);

const DECLARED =
  /^export (?:declare )?(?:abstract )?(?:async )?(?:class|interface|type|function\*?|const|let|enum) (\w+)/gm;

/** Each exported name of the library with the files that declare it. An overload counts once. */
const declared = new Map<string, Set<string>>();
for (const [file, text] of texts) {
  if (!file.startsWith(SRC) || /(\.spec|\.generated)\.ts$/.test(file)) continue;
  for (const [, name = ''] of text.matchAll(DECLARED)) {
    declared.set(name, (declared.get(name) ?? new Set()).add(file));
  }
}

describe('a name that a file of the library exports', () => {
  it('is declared by no other file', () => {
    expect(
      [...declared].filter(([, files]) => files.size > 1).map(([name, files]) => [name, ...files]),
    ).toEqual([]);
  });

  it('is used by another file', () => {
    const words = [...texts].map(([file, text]) => [file, new Set(text.match(/\w+/g))] as const);
    const unused = [...declared].filter(
      ([name, files]) => !words.some(([file, used]) => !files.has(file) && used.has(name)),
    );
    expect(unused.map(([name, files]) => [name, ...files])).toEqual([]);
  });
});
