import { isBuiltin } from 'node:module';
import type { SchematicContext, TaskConfiguration, Tree } from '@angular-devkit/schematics';
import { describe, expect, it } from '@jest/globals';
import type { LockStoreFactory } from '../src/index.js';
import { nestAdd, type NestAddOptions } from './nest-add.js';
import { OFFERED_STORES, importPathOf, type OfferedStore } from '../src/stores.js';

const MAIN = `import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';

const app = await NestFactory.create(AppModule);
await app.listen(3000);
`;
const MODULE = `import { Module } from '@nestjs/common';

@Module({
  imports: [],
})
export class AppModule {}
`;
const APP = {
  'src/main.ts': MAIN,
  'src/app.module.ts': MODULE,
  'package.json': '{\n  "dependencies": {}\n}\n',
};

interface Run {
  readonly files: Record<string, string>;
  readonly said: string;
  readonly tasks: readonly TaskConfiguration[];
}

/** What `nest add` needs of a tree, as Jest cannot load that of the devkit. The package test uses the real one. */
function treeOf(files: Record<string, string>): Tree {
  const nameOf = (path: string) => path.replace(/^\//, '');
  const tree = {
    exists: (path: string) => nameOf(path) in files,
    readText: (path: string) => files[nameOf(path)],
    overwrite: (path: string, text: string) => (files[nameOf(path)] = text),
    getDir: (folder: string) => ({
      visit: (visitor: (path: string) => void) =>
        Object.keys(files)
          .filter((path) => path.startsWith(`${folder}/`))
          .forEach((path) => visitor(`/${path}`)),
    }),
  };
  return tree as unknown as Tree;
}

function add(before: Record<string, string>, options: NestAddOptions = {}): Run {
  const files = { ...before };
  const said: string[] = [];
  const tasks: TaskConfiguration[] = [];
  const log = (text: string) => said.push(text);
  const context = {
    logger: { info: log, warn: log },
    addTask: (task: { toConfiguration(): TaskConfiguration }) => tasks.push(task.toConfiguration()),
  };
  (nestAdd({ sourceRoot: 'src', ...options }) as (tree: Tree, context: SchematicContext) => void)(
    treeOf(files),
    context as unknown as SchematicContext,
  );
  return { files, said: said.join('\n'), tasks };
}

describe('nest add', () => {
  it('registers the module, enables shutdown hooks and says so', () => {
    const { files, said, tasks } = add(APP);
    expect(files['src/app.module.ts']).toContain('imports: [DistributedLockModule.forRoot()],');
    expect(files['src/main.ts']).toContain('app.enableShutdownHooks();\nawait app.listen');
    expect(said).toContain(
      'src/app.module.ts: AppModule imports DistributedLockModule with memory as its store.',
    );
    expect(said).toContain('src/main.ts calls enableShutdownHooks()');
    expect(said).toContain('Left for you:\n  - Locks live in memory');
    expect(tasks).toEqual([]);
  });

  it('adds the client of the store to package.json and installs it', () => {
    const { files, said, tasks } = add(APP, { store: 'redis' });
    expect(JSON.parse(files['package.json']!)).toEqual({ dependencies: { ioredis: '^5.4.0 || ^6.0.0' } });
    expect(tasks).toEqual([{ name: 'node-package', options: { command: 'install', quiet: true } }]);
    expect(said).toContain('Set REDIS_URL where the app runs.');
  });

  it('leaves the installation to you where you want that, and to bun where its lockfile lies', () => {
    const skipped = add(APP, { store: 'redis', skipInstall: true });
    expect(skipped.tasks).toEqual([]);
    expect(skipped.said).toContain('Install the dependencies, as with npm install.');
    const { tasks } = add({ ...APP, 'bun.lock': '' }, { store: 'redis' });
    expect(tasks[0]?.options).toMatchObject({ packageManager: 'bun' });
  });

  it('keeps the version of a client that is there, and its place among the others', () => {
    const manifest = '{\n\t"dependencies": {\n\t\t"ioredis": "5.4.1",\n\t\t"zod": "3.0.0"\n\t}\n}\n';
    expect(add({ ...APP, 'package.json': manifest }, { store: 'redis' }).files['package.json']).toBe(
      manifest,
    );
    const { files } = add({ ...APP, 'package.json': manifest }, { store: 'postgres' });
    expect(files['package.json']).toBe(manifest.replace('\t\t"zod"', '\t\t"pg": "^8.11.0",\n\t\t"zod"'));
    const dev = '{ "devDependencies": { "pg": "8.0.0" } }';
    expect(add({ ...APP, 'package.json': dev }, { store: 'postgres' }).said).toContain(
      'Move pg to the dependencies: pg is among the devDependencies',
    );
  });

  it('changes nothing the second time', () => {
    const { files } = add(APP, { store: 'redis' });
    const again = add(files, { store: 'redis' });
    expect(again.files).toEqual(files);
    expect(again.tasks).toEqual([]);
    expect(again.said).toContain('src/app.module.ts registers DistributedLockModule already.');
    expect(again.said).toContain('src/main.ts has enableShutdownHooks() already');
  });

  it('finds a registration in another module', () => {
    const locks = '@Module({ imports: [DistributedLockModule.forRootAsync({})] })\nclass LocksModule {}\n';
    const { files, said } = add({ ...APP, 'src/locks/locks.module.ts': locks }, { store: 'redis' });
    expect(files['src/app.module.ts']).toBe(MODULE);
    expect(files['package.json']).toBe(APP['package.json']);
    expect(said).toContain('src/locks/locks.module.ts registers DistributedLockModule already.');
  });

  it.each([
    'app.module.spec.ts',
    'app.e2e-spec.ts',
    'app.test.ts',
    'test/app.ts',
    '__tests__/app.ts',
    'a.d.ts',
  ])('registers the module in the app where only src/%s does', (file) => {
    const test = 'Test.createTestingModule({ imports: [DistributedLockModule.forRoot()] })\n';
    const { files } = add({ ...APP, [`src/${file}`]: test });
    expect(files['src/app.module.ts']).toContain('imports: [DistributedLockModule.forRoot()],');
  });

  it.each(['contest.module.ts', 'latest/locks.module.ts', 'spectest.ts'])(
    'takes src/%s for a part of the app',
    (file) => {
      const { said } = add({ ...APP, [`src/${file}`]: 'const it = DistributedLockModule.forRoot();\n' });
      expect(said).toContain(`src/${file} registers DistributedLockModule already.`);
    },
  );

  it.each([
    [
      'of another name in another folder',
      './root/root.module',
      'src/root/root.module.ts',
      'RootModule',
      'RootModule',
    ],
    ['from the root of the project', 'src/root.module', 'src/root.module.ts', 'RootModule', 'RootModule'],
    ['that is renamed', './x.module.js', 'src/x.module.ts', 'RootModule as Main', 'Main'],
    ['with a method', './x.module.js', 'src/x.module.ts', 'RootModule', 'RootModule.register({ a: 1 })'],
  ])('follows the entry file to a root module %s', (_, specifier, path, names, argument) => {
    const main = `import { ${names} } from '${specifier}';\nconst app = await NestFactory.create(${argument});\n`;
    const { files } = add({ 'src/main.ts': main, [path]: MODULE.replace('AppModule', 'RootModule') });
    expect(files[path]).toContain('DistributedLockModule.forRoot()');
  });

  it('changes an app in JavaScript', () => {
    const main = MAIN.replace('app.module.js', 'app.module');
    const { files } = add({ 'src/main.js': main, 'src/app.module.js': MODULE });
    expect(files['src/app.module.js']).toContain('imports: [DistributedLockModule.forRoot()],');
    expect(files['src/main.js']).toContain('app.enableShutdownHooks();');
  });

  it('changes an app of one file', () => {
    const { files } = add({ 'src/main.ts': `${MODULE}\n${CREATE}\n` });
    expect(files['src/main.ts']).toContain('imports: [DistributedLockModule.forRoot()],');
    expect(files['src/main.ts']).toContain('app.enableShutdownHooks();');
  });

  it('works in a project of a monorepo, with the entry file of nest-cli.json', () => {
    const settings = { projects: { shop: { sourceRoot: 'apps/shop/src', entryFile: 'server' } } };
    const { files } = add(
      {
        'nest-cli.json': JSON.stringify(settings),
        'apps/shop/src/server.ts': MAIN,
        'apps/shop/src/app.module.ts': MODULE,
      },
      { sourceRoot: 'apps/shop/src' },
    );
    expect(files['apps/shop/src/server.ts']).toContain('app.enableShutdownHooks();');
    expect(files['apps/shop/src/app.module.ts']).toContain('DistributedLockModule.forRoot()');
  });

  it('says what is left by hand where there is no root module and no entry file', () => {
    const { files, said } = add({ 'package.json': '{}' }, { store: 'redis' });
    expect(Object.keys(files)).toEqual(['package.json']);
    expect(said).toContain(
      'Register the module in the root module by hand, because there is no src/app.module.ts:',
    );
    expect(said).toContain("import { redisStore } from 'nestjs-distributed-lock/redis';");
    expect(said).toContain(
      "imports: [DistributedLockModule.forRoot({ store: redisStore(process.env.REDIS_URL ?? 'redis://localhost:6379') })],",
    );
    expect(said).toContain(
      'Call app.enableShutdownHooks() before app.listen() by hand, because there is no src/main.ts.',
    );
  });

  it('refuses a store that does not exist', () => {
    expect(() => add(APP, { store: 'toaster' })).toThrow(
      'There is no store "toaster". There are memory, redis, postgres, mysql, sqlite, etcd, zookeeper.',
    );
  });
});

const CREATE = 'const app = await NestFactory.create(AppModule);';

/** The variable of the environment in the code of the argument, and what is used without it. */
function argumentOf({ argument = '' }: OfferedStore['nestAdd']): readonly [variable: string, given: string] {
  const [, variable = '', given = ''] = /^process\.env\.(\w+) \?\? '(.+)'$/.exec(argument) ?? [];
  return [variable, given];
}

describe('a store of nest add', () => {
  const stores = OFFERED_STORES.filter(({ name }) => name !== 'memory').map((it) => [it.name, it] as const);

  it.each(stores)('says which variable to set, and what is used without it: %s', (_, { nestAdd: setup }) => {
    const [variable, given] = argumentOf(setup);
    expect(setup.leftByHand).toContain(`Set ${variable} `);
    expect(setup.leftByHand).toContain(given);
  });

  // The store of SQLite needs a newer Node than the package does.
  const runnable = stores.filter(([name]) => name !== 'sqlite' || isBuiltin('node:sqlite'));

  it.each(runnable)('is made by what its path exports: %s', async (_, store) => {
    const exported = (await import(importPathOf(store))) as Record<
      string,
      (target: string) => LockStoreFactory
    >;
    const [, given] = argumentOf(store.nestAdd);
    expect(exported[store.factory]?.(given)).toEqual({ create: expect.any(Function) });
  });
});
