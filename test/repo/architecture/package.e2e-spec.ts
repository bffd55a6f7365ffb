import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';

interface Manifest {
  readonly peerDependencies: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta: Readonly<Record<string, { readonly optional?: boolean }>>;
}

const read = (path: string) =>
  readFileSync(new URL(`../../../libs/distributed-lock/${path}`, import.meta.url), 'utf8');
const manifest = JSON.parse(read('package.json')) as Manifest;

describe('the published package', () => {
  it('installs nothing with it', () => {
    const fields = Object.keys(manifest);
    expect(fields.filter((field) => /^(dependencies|optionalDependencies|bundle)/.test(field))).toEqual([]);
  });

  it('asks its host for Nest and rxjs, and for anything else only where a sub-path or a transport needs it', () => {
    const peers = Object.keys(manifest.peerDependencies).sort();
    const optional = [
      '@grpc/grpc-js',
      '@grpc/proto-loader',
      '@nestjs/microservices',
      '@nestjs/terminus',
      '@nestjs/websockets',
      '@opentelemetry/api',
      'ioredis',
      'pg',
      'mysql2',
      'redis',
    ];
    expect(peers).toEqual(['@nestjs/common', '@nestjs/core', ...optional, 'reflect-metadata', 'rxjs'].sort());
    expect(manifest.peerDependenciesMeta).toEqual(
      Object.fromEntries(optional.map((name) => [name, { optional: true }])),
    );
  });

  it('has one LockService, one store and one of each error, whichever format asks for it', async () => {
    const program = `
      import { createRequire } from 'node:module';
      const require = createRequire(process.cwd() + '/');
      for (const [name, path] of [['LockService', ''], ['LockLostError', ''], ['redisStore', '/redis']])
        console.log(name, (await import('nestjs-distributed-lock' + path))[name] === require('nestjs-distributed-lock' + path)[name]);`;
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program]);
    expect(stdout).toBe('LockService true\nLockLostError true\nredisStore true\n');
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
