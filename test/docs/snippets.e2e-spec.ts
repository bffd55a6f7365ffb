import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import { pagesBelow, readPage } from '../support/pages.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FOLDER = join(ROOT, `node_modules/.cache/doc-snippets-${process.pid}`);

/** The names that a block marked "fragment" may use without an import. */
const PRELUDE = [
  "import { Body, Controller, Get, Injectable, Module, Param, ParseIntPipe, Post } from '@nestjs/common';",
  "import { CurrentLock, DistributedLockModule, InjectLockService, LockService, LockSignal, Locked, lockKey, memoryStore, exclusive, permits, shared } from 'nestjs-distributed-lock';",
  "import type { Lock } from 'nestjs-distributed-lock';",
  "import { redisStore } from 'nestjs-distributed-lock/redis';",
  "declare const app: import('@nestjs/common').INestApplication;",
  'declare const locks: LockService;',
].join(' ');

interface Snippet {
  readonly name: string;
  readonly code: string;
}

const pages = ['README.md', 'CONTRIBUTING.md', 'libs/distributed-lock/README.md'].concat(pagesBelow('docs'));
/** `translations.e2e-spec.ts` shows that the Chinese pages have the same blocks. */
const pagesWithCode = pages.filter((page) => !page.startsWith('docs/zh/'));

const SOURCES = 'libs/distributed-lock/src';
const sources = readdirSync(join(ROOT, SOURCES), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts') && !file.endsWith('.spec.ts'))
  .map((file) => `${SOURCES}/${file.replaceAll('\\', '/')}`);
/** Files that other tests compile, most of them with packages that are not installed here. A block may be a part of one. */
const ORMS = join(ROOT, 'test/stores/orms/recipes');
const compiledElsewhere = readdirSync(ORMS)
  .filter((file) => file.endsWith('.ts'))
  .map((file) => join(ORMS, file))
  .concat(join(ROOT, 'test/docs/recipes/fenced-kysely.ts'))
  .map((file) => readFileSync(file, 'utf8'));

/** Each block in a file of its own, on the same lines as in its page, so that errors name them. */
function snippetsOf(page: string): Snippet[] {
  const text = readPage(page);
  return [...text.matchAll(/^```ts( fragment)?\n([^]*?)^```$/gm)].map((block, index) => {
    const line = text.slice(0, block.index).split('\n').length;
    const [, fragment, code = ''] = block;
    const head = fragment ? PRELUDE : '';
    return {
      name: `${page.replaceAll('/', '_')}.${index}.ts`,
      code: `${head}${'\n'.repeat(line)}${code}\nexport {};\n`,
    };
  });
}

/** What the code in the table of the README may use besides. */
const TABLE_PRELUDE = `${PRELUDE}
import { heldUntilCommit, type SqlQuery } from 'nestjs-distributed-lock/guard';
import { LockedJob } from 'nestjs-distributed-lock/bullmq';
import { OnlyLeader } from 'nestjs-distributed-lock/leader';
import { Once } from 'nestjs-distributed-lock/once';
import { TestLocks } from 'nestjs-distributed-lock/testing';
declare const lock: Lock, query: SqlQuery;`;

/** The second column of "I want to …": decorators, each on a method of its own, and statements, each in a block. */
function tableOf(page: string): Snippet {
  const codes = [...readPage(page).matchAll(/^\| \[[^|]+\| `([^`]+)` +\|$/gm)].map(([, code]) => code!);
  const decorators = codes.filter((code) => code.startsWith('@'));
  const statements = codes.filter((code) => !code.startsWith('@'));
  const methods = decorators.map(
    (code, index) => `${code}\nasync m${index}(): Promise<string | undefined> { return ''; }`,
  );
  const blocks = statements.map((code) => `{ ${/^lock\.\w+$/.test(code) ? `void ${code}` : code}; }`);
  const code = [TABLE_PRELUDE, 'export class Table {', ...methods, '}', ...blocks];
  return { name: `${page.replaceAll('/', '_')}.table.ts`, code: code.join('\n') };
}

/** The examples in the comments of the sources. One that begins with an import is a whole file. */
function examplesOf(source: string): Snippet[] {
  const text = readFileSync(join(ROOT, source), 'utf8');
  return [...text.matchAll(/^ *\* @example\n *\* ```ts\n([^]*?)^ *\* ```$/gm)].map(
    ([, lines = ''], index) => {
      const code = lines.replaceAll(/^ *\* ?/gm, '');
      const head = code.startsWith('import ') ? '' : `${PRELUDE}\n`;
      return { name: `${source.replaceAll('/', '_')}.${index}.ts`, code: `${head}${code}\nexport {};\n` };
    },
  );
}

function isCompiledElsewhere(code: string): boolean {
  const block = code.replace(/\nexport \{\};\n$/, '').trim();
  return compiledElsewhere.some((file) => file.includes(block));
}

function compile(snippets: readonly Snippet[]): string {
  rmSync(FOLDER, { recursive: true, force: true });
  mkdirSync(FOLDER, { recursive: true });
  try {
    writeFileSync(join(FOLDER, 'package.json'), '{ "type": "module" }');
    const files = snippets.map(({ name }) => name);
    const config = {
      extends: '../../../tsconfig.json',
      // A block may show an import or a variable that it does not use.
      compilerOptions: { rootDir: '../../..', noUnusedLocals: false },
      files,
      include: [],
    };
    writeFileSync(join(FOLDER, 'tsconfig.json'), JSON.stringify(config));
    for (const { name, code } of snippets) writeFileSync(join(FOLDER, name), code);
    const tsc = join(ROOT, 'node_modules/@typescript/native/bin/tsc');
    return spawnSync(process.execPath, [tsc, '-p', FOLDER], { encoding: 'utf8' }).stdout;
  } finally {
    rmSync(FOLDER, { recursive: true, force: true });
  }
}

describe('the documentation', () => {
  // In one compilation, as each reads the library and Nest anew.
  it('shows only TypeScript that compiles, also in the tables of README and in the comments of the sources, and would be caught if it did not', () => {
    const snippets = pagesWithCode.flatMap(snippetsOf).filter(({ code }) => !isCompiledElsewhere(code));
    expect(snippets.length).toBeGreaterThan(2);
    const tables = ['README.md', 'docs/zh/README.md'].map(tableOf);
    for (const table of tables) expect(table.code.match(/@Locked/g)?.length).toBeGreaterThan(5);
    const examples = sources.flatMap(examplesOf);
    const wrong = { name: 'wrong.ts', code: "import { nosuch } from 'nestjs-distributed-lock';" };
    const [caught, ...errors] = compile([...snippets, ...tables, ...examples, wrong])
      .split(/\n(?=\S)/)
      .toSorted((a, b) => Number(b.includes('nosuch')) - Number(a.includes('nosuch')));
    expect(caught).toContain('nosuch');
    expect(errors.filter((error) => error.trim() !== '')).toEqual([]);
  }, 120_000);
});
