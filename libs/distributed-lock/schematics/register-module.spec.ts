import { describe, expect, it } from '@jest/globals';
import ts from 'typescript';
import { registerModule } from './register-module.js';
import { SourceText } from './source-text.js';
import { OFFERED_STORES } from '../src/stores.js';

function registered(text: string, store = 'memory', className = 'AppModule'): string {
  const outcome = registerModule(
    new SourceText(ts, 'app.module.ts', text),
    className,
    OFFERED_STORES.find(({ name }) => name === store)!,
  );
  if (outcome.kind === 'changed') return outcome.text;
  return outcome.kind === 'present' ? 'present' : `by hand: ${outcome.reason}`;
}

const HEAD = "import { Module } from '@nestjs/common';\n";
const IMPORT = "import { DistributedLockModule } from 'nestjs-distributed-lock';\n";

/** The metadata of a module, before and after. */
const metadata = (text: string) => registered(`${HEAD}\n@Module(${text})\nexport class AppModule {}\n`);
const withMetadata = (text: string) => `${HEAD}${IMPORT}\n@Module(${text})\nexport class AppModule {}\n`;

describe('the module is registered', () => {
  /** What is inserted stands in «», with LOCKS for the registration. */
  it.each([
    ['an empty list', '{ imports: [«LOCKS»] }'],
    ['a list on one line', '{ imports: [A, B«, LOCKS»] }'],
    ['a trailing comma on one line', '{ imports: [A, B,« LOCKS»] }'],
    ['one entry per line, without a trailing comma', '{\n  imports: [\n    A,\n    B«,\n    LOCKS»\n  ],\n}'],
    [
      'one entry per line, with comments',
      '{\n  imports: [\n    A, // first\n    B.forRoot({\n      x: 1,\n    }), // last, so far\n    «LOCKS,\n    »// C,\n  ],\n}',
    ],
    [
      'a comment behind the last entry without a comma',
      '{\n  imports: [\n    A«,» // only\n  «  LOCKS\n  »],\n}',
    ],
    ['nothing but a comment', '{ imports: [«LOCKS »/* none */] }'],
    ['nothing but a comment on a line', '{\n  imports: [«LOCKS »\n    // none yet\n  ],\n}'],
    [
      'an entry that spans lines on the line of the bracket',
      '{\n  imports: [A.forRoot({\n    x: 1,\n  })«, LOCKS»],\n}',
    ],
    ['a spread', '{ imports: [...others«, LOCKS»] }'],
    ['a quoted name', "{ 'imports': [A«, LOCKS»] }"],
    ['no metadata', '{«\n  imports: [LOCKS],\n»}'],
    ['no imports, on one line', '{« imports: [LOCKS],» providers: [P] }'],
    [
      'no imports, and a comment before the first property',
      '{ // the root«\n  imports: [LOCKS],»\n  // services\n  providers: [P],\n}',
    ],
    ['tabs', '{\n\timports: [\n\t\tA,\n\t«\tLOCKS,\n\t»],\n}'],
  ])('beside %s', (_, marked) => {
    const after = marked.replaceAll(/[«»]/g, '').replace('LOCKS', 'DistributedLockModule.forRoot()');
    expect(metadata(marked.replaceAll(/«[^»]*»/g, ''))).toBe(withMetadata(after));
  });

  it('in place of an empty list on two lines', () => {
    expect(metadata('{\n  imports: [\n  ],\n}')).toBe(
      withMetadata('{\n  imports: [DistributedLockModule.forRoot()],\n}'),
    );
  });

  it('on lines of their own where a line would be too long', () => {
    const before = `${HEAD}\n@Module({\n  imports: [],\n  controllers: [],\n})\nexport class AppModule {}\n`;
    expect(registered(before, 'redis')).toBe(
      `${HEAD}${IMPORT}import { redisStore } from 'nestjs-distributed-lock/redis';\n\n@Module({\n  imports: [\n` +
        '    DistributedLockModule.forRoot({\n' +
        "      store: redisStore(process.env.REDIS_URL ?? 'redis://localhost:6379'),\n    }),\n  ],\n  controllers: [],\n" +
        '})\nexport class AppModule {}\n',
    );
  });

  it('in a file with CRLF, double quotes and no semicolons, in its own manner', () => {
    const before =
      'import { Module } from "@nestjs/common"\r\n\r\n@Module({\r\n  imports: [\r\n    A\r\n  ]\r\n})\r\nexport class AppModule {}\r\n';
    const after = registered(before, 'sqlite');
    expect(after).toContain(
      'import { DistributedLockModule } from "nestjs-distributed-lock"\r\nimport { sqliteStore }',
    );
    expect(after).toContain('sqliteStore(process.env.LOCK_FILE ?? "locks.sqlite")');
    expect(after).not.toMatch(/[^\r]\n|;/);
  });

  it('behind imports of several lines, with their comments', () => {
    const before = `import {\n  Module, // the decorator\n} from '@nestjs/common'; // Nest\n\n@Module({})\nclass AppModule {}\n`;
    expect(registered(before)).toContain(`} from '@nestjs/common'; // Nest\n${IMPORT}\n@Module`);
  });

  it('with the names that an import from this package has already', () => {
    const inline =
      "import { Locked } from 'nestjs-distributed-lock';\n@Module({ imports: [] })\nclass AppModule {}\n";
    expect(registered(inline)).toContain(
      "import { Locked, DistributedLockModule } from 'nestjs-distributed-lock';\n@",
    );
    const lines = inline.replace('{ Locked }', '{\n  Locked,\n}');
    expect(registered(lines)).toContain('import {\n  Locked,\n  DistributedLockModule,\n} from');
    const renamed = inline.replace('{ Locked }', '{ DistributedLockModule as Locks }');
    expect(registered(renamed)).toContain('imports: [Locks.forRoot()]');
    const types = inline.replace('import {', 'import type {');
    expect(registered(types)).toContain(`lock';\n${IMPORT}@`);
  });

  it('under another name where a function of another package has the name', () => {
    const before =
      "import { redisStore } from 'cache-manager-redis-store';\n@Module({})\nclass AppModule {}\n";
    const after = registered(before, 'redis');
    expect(after).toContain("import { redisStore as lockRedisStore } from 'nestjs-distributed-lock/redis';");
    expect(after).toContain('store: lockRedisStore(process.env');
  });

  it('in the module of that name, where a file has two', () => {
    const before =
      '@Module({ imports: [A] })\nclass OtherModule {}\n@Module({ imports: [B] })\nclass AppModule {}\n';
    expect(registered(before)).toContain('[A] })\nclass OtherModule {}\n@Module({ imports: [B, Dist');
    expect(registered(before, undefined, 'OtherModule')).toContain('[A, DistributedLockModule.forRoot()] })');
  });

  it('once only', () => {
    const once = metadata('{ imports: [A] }');
    expect(registered(once)).toBe('present');
    expect(registered(once, 'redis')).toBe('present');
  });

  it.each([
    ['an alias', "import { DistributedLockModule as Locks } from 'nestjs-distributed-lock';", 'Locks'],
    ['a namespace', "import * as locks from 'nestjs-distributed-lock';", 'locks.DistributedLockModule'],
    ['a default import', "import locks from 'nestjs-distributed-lock';", 'locks.DistributedLockModule'],
    ['require', "const { DistributedLockModule: Locks } = require('nestjs-distributed-lock');", 'Locks'],
    ['require without a variable', '', "require('nestjs-distributed-lock').DistributedLockModule"],
    ['a constant', 'const Locks = DistributedLockModule;', 'Locks'],
    ['a constant of a namespace', 'const Locks = lib.DistributedLockModule;', 'Locks'],
  ])('once only, where the module is known by %s', (_, declaration, name) => {
    for (const method of ['forRoot', 'forRootAsync']) {
      const text = `${HEAD}${declaration}\n@Module({ imports: [${name}.${method}({})] })\nclass AppModule {}\n`;
      expect(registered(text)).toBe('present');
    }
  });

  it('beside a module of another package that has forRoot', () => {
    const text =
      "import { Locks } from 'others';\n@Module({ imports: [Locks.forRoot()] })\nclass AppModule {}\n";
    expect(registered(text)).toContain('[Locks.forRoot(), DistributedLockModule.forRoot()]');
  });

  it.each([
    ['{ ...others, imports: [A] }', '{ ...others, imports: [A, DistributedLockModule.forRoot()] }'],
    ['{ imports: [A], imports: [B] }', '{ imports: [A], imports: [B, DistributedLockModule.forRoot()] }'],
  ])('in the imports that count: %s', (before, after) => {
    expect(metadata(before)).toBe(withMetadata(after));
  });

  it('although a comment mentions it', () => {
    expect(metadata('{ imports: [/* DistributedLockModule.forRoot() */] }')).toContain(
      '[DistributedLockModule.forRoot() /*',
    );
  });

  it.each([
    ['the imports of AppModule are not an array', '@Module({ imports: modules })\nclass AppModule {}\n'],
    ['the imports of AppModule are not an array', '@Module({ imports })\nclass AppModule {}\n'],
    ['the decorator of AppModule has no object', '@Module(metadata)\nclass AppModule {}\n'],
    [
      '`...others` in the decorator of AppModule may have imports',
      '@Module({ imports: [A], ...others })\nclass AppModule {}\n',
    ],
    [
      '`...others()` in the decorator of AppModule may have imports',
      '@Module({ ...others() })\nclass AppModule {}\n',
    ],
    ['the decorator of AppModule has a computed name', "@Module({ ['imports']: [A] })\nclass AppModule {}\n"],
    ['AppModule has no decorator @Module', '@Injectable()\nclass AppModule {}\n'],
    ['it declares no class AppModule', '@Module({})\nclass RootModule {}\n'],
    ['the file has syntax errors', '@Module({ imports: [ })\nclass AppModule {}\n'],
  ])('by hand, because %s', (reason, text) => {
    expect(registered(text)).toContain(`by hand: ${reason}`);
  });
});
