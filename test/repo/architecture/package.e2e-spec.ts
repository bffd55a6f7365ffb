import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { STORES } from '../../../libs/distributed-lock/src/stores.js';

interface Manifest {
  readonly exports: Readonly<Record<string, unknown>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta: Readonly<Record<string, { readonly optional?: boolean }>>;
}

const read = (path: string) =>
  readFileSync(new URL(`../../../libs/distributed-lock/${path}`, import.meta.url), 'utf8');
const manifest = JSON.parse(read('package.json')) as Manifest;
const { compilerOptions } = JSON.parse(read('../../tsconfig.json')) as { compilerOptions: { paths: object } };
const library = fileURLToPath(new URL('../../../libs/distributed-lock', import.meta.url));
const paths = Object.keys(manifest.exports)
  .filter((path) => !path.endsWith('.json'))
  .map((path) => `nestjs-distributed-lock${path.slice(1)}`);

/** @returns what an ES module of this source prints */
async function run(program: string): Promise<string> {
  const words = ['--input-type=module', '-e', program];
  // So that one which waits for ever ends with its test.
  const { stdout } = await promisify(execFile)(process.execPath, words, { timeout: 25_000 });
  return stdout;
}

describe('the published package', () => {
  it('installs nothing with it', () => {
    const fields = Object.keys(manifest);
    expect(fields.filter((field) => /^(dependencies|optionalDependencies|bundle)/.test(field))).toEqual([]);
  });

  it('asks its host for Nest and rxjs, and for anything else only where a sub-path or a transport needs it', () => {
    const peers = Object.keys(manifest.peerDependencies).sort();
    const optional = [
      '@nestjs/microservices',
      '@nestjs/terminus',
      '@nestjs/websockets',
      '@opentelemetry/api',
      'bullmq',
      ...STORES.flatMap((store) => Object.keys({ ...store.peers, ...store.otherPeers })),
    ];
    expect(peers).toEqual(['@nestjs/common', '@nestjs/core', ...optional, 'reflect-metadata', 'rxjs'].sort());
    expect(manifest.peerDependenciesMeta).toEqual(
      Object.fromEntries(optional.map((name) => [name, { optional: true }])),
    );
  });

  it('exports each entry point of the sources, and nothing else', () => {
    expect(paths.toSorted()).toEqual(Object.keys(compilerOptions.paths).toSorted());
  });

  it.each(['import', 'require'])(
    'has one of each class, decorator and function, whichever format asks for it, and the first by %s',
    async (first) => {
      const program = `
        import { createRequire } from 'node:module';
        const require = createRequire(process.cwd() + '/');
        for (const path of ${JSON.stringify(paths)}) {
          const required = ${first === 'require'} && require(path);
          const { default: _, 'module.exports': __, ...imported } = await import(path);
          const others = required || require(path);
          const differ = Object.keys({ ...imported, ...others }).filter((it) => imported[it] !== others[it]);
          if (differ.length > 0) console.log(path, differ);
        }`;
      expect(paths).toContain('nestjs-distributed-lock/leader');
      expect(await run(program)).toBe('');
    },
  );

  it('is one in an application that imports a part of it and requires another', async () => {
    const program = `
      import { createRequire } from 'node:module';
      import { Module } from '@nestjs/common';
      import { NestFactory } from '@nestjs/core';
      import { DistributedLockModule } from 'nestjs-distributed-lock';
      import { LockAdminModule } from 'nestjs-distributed-lock/admin';
      import { LeaderModule, getLeaderToken } from 'nestjs-distributed-lock/leader';
      const require = createRequire(process.cwd() + '/');
      const others = { ...require('nestjs-distributed-lock/admin'), ...require('nestjs-distributed-lock/leader') };
      const boot = async (...imports) => {
        class App {}
        Module({ imports: [DistributedLockModule.forRoot({ logger: false }), ...imports] })(App);
        const app = await NestFactory.createApplicationContext(App, { logger: false, abortOnError: false });
        await app.init();
        return app;
      };
      const app = await boot(LeaderModule.forFeature('poller'), others.LeaderModule.forFeature('poller'));
      const leader = app.get(getLeaderToken('poller'));
      while (!leader.isLeader) await new Promise(setImmediate);
      console.log('leads');
      await app.close();
      class Guard { canActivate() { return true; } }
      await boot(LockAdminModule.forRoot({ guard: Guard }), others.LockAdminModule.forRoot({ guard: Guard }))
        .catch((error) => console.log(error.message));`;
    expect(await run(program)).toBe(
      'leads\nLockAdminModule.forRoot was called twice for the path "locks". Give each registration a path of its own.\n',
    );
  });

  it('says at boot that two copies of it are loaded, which, and what to do, and works as far as it can', async () => {
    // Beside the first, so that both find the same Nest.
    const copy = await mkdtemp(join(library, '../../dist/second-copy-'));
    try {
      await cp(join(library, 'dist'), join(copy, 'dist'), { recursive: true });
      const program = `
        import { Inject, Logger, Module } from '@nestjs/common';
        import { NestFactory } from '@nestjs/core';
        import * as one from ${JSON.stringify(join(library, 'dist/index.js'))};
        import * as two from ${JSON.stringify(join(copy, 'dist/index.js'))};
        import { LeaderModule } from ${JSON.stringify(join(library, 'dist/leader.js'))};
        import { LeaderModule as Other } from ${JSON.stringify(join(copy, 'dist/leader.js'))};
        class Jobs {
          constructor(locks) { this.locks = locks; }
          async run(id, lock) { return [id, lock.key, this.locks.current()?.key]; }
        }
        Inject(two.LockService)(Jobs, undefined, 0);
        two.CurrentLock()(Jobs.prototype, 'run', 1);
        const method = Object.getOwnPropertyDescriptor(Jobs.prototype, 'run');
        two.Locked('job:<id>')(Jobs.prototype, 'run', method);
        Object.defineProperty(Jobs.prototype, 'run', method);
        const boot = (...imports) => {
          class App {}
          Module({ imports: [one.DistributedLockModule.forRoot(), ...imports], providers: [Jobs] })(App);
          const logger = { log() {}, error() {}, warn: (text) => console.log(text) };
          return NestFactory.createApplicationContext(App, { logger, abortOnError: false });
        };
        const app = await boot();
        console.log((await app.get(Jobs).run(7)).join());
        await app.close();
        await boot(LeaderModule.forFeature('a'), Other.forFeature('a')).catch((error) => console.log(error.message));`;
      const [warning, ...others] = (await run(program)).trim().split('\n');
      expect(warning).toBe(
        `2 copies of nestjs-distributed-lock are loaded: ${library} and ${copy}. Each has classes and errors of its own. Make them one: npm ls nestjs-distributed-lock shows what installs them. A library must have the package in its peerDependencies, and versions that differ must be made the same.`,
      );
      expect(others).toEqual([
        '7,job:7,job:7',
        `LeaderModule.forFeature is called in several copies of this package, each of which would elect leaders of its own. ${warning}`,
      ]);
    } finally {
      await rm(copy, { recursive: true });
    }
  });

  // Each path loads what it shares with others, and no other path but the root, which every application has.
  it.each(['js', 'cjs'])('loads no path that is not imported: %s', (extension) => {
    const built = readdirSync(new URL('../../../libs/distributed-lock/dist', import.meta.url));
    const files = built.filter((file) => file.endsWith(`.${extension}`) && !file.endsWith(`.d.${extension}`));
    expect(files).toContain(`index.${extension}`);
    const loaded = files.flatMap((file) => {
      const imports = read(`dist/${file}`).matchAll(/(?:from |require\()["'](\.[^"']+)["']/g);
      const found = [...imports].map(([, path]) => path!);
      return found.filter((path) => !path.startsWith('./shared/')).map((path) => `${file} → ${path}`);
    });
    expect(loaded).toEqual([]);
  });

  it('loads no client of Redis before it knows which one it needs', () => {
    const code = read('dist/shared/redis.cjs');
    expect(code).toContain('("ioredis")');
    expect(code).not.toMatch(/(?:from |require\()"(?:io)?redis"/);
  });
});
