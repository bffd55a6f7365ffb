import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';

interface Manifest {
  readonly exports: Readonly<Record<string, unknown>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta: Readonly<Record<string, { readonly optional?: boolean }>>;
}

const read = (path: string) =>
  readFileSync(new URL(`../../libs/distributed-lock/${path}`, import.meta.url), 'utf8');
const manifest = JSON.parse(read('package.json')) as Manifest;

describe('the published package', () => {
  it('installs nothing with it', () => {
    const fields = Object.keys(manifest);
    expect(fields.filter((field) => /^(dependencies|optionalDependencies|bundle)/.test(field))).toEqual([]);
  });

  it('asks its host for Nest and rxjs, and for a driver only if a store needs it', () => {
    const peers = Object.keys(manifest.peerDependencies).sort();
    expect(peers).toEqual(['@nestjs/common', '@nestjs/core', 'ioredis', 'reflect-metadata', 'rxjs']);
    expect(manifest.peerDependenciesMeta).toEqual({ ioredis: { optional: true } });
  });

  it('opens one path for each concern', () => {
    expect(Object.keys(manifest.exports)).toEqual(['.', './redis', './testing', './package.json']);
  });
});
