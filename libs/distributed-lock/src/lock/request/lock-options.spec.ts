import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { nearestPackage } from './lock-options.js';

describe('the nearest package', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'package-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const write = (path: string, text: string) => {
    mkdirSync(join(folder, path), { recursive: true });
    writeFileSync(join(folder, path, 'package.json'), text);
  };

  it('is the one of the folder itself, or of the first folder above that has a name', () => {
    write('.', '{ "name": "@acme/shop" }');
    write('dist', '{ "type": "module" }');
    write('dist/broken', '{');
    expect(nearestPackage(folder)).toBe('@acme/shop');
    expect(nearestPackage(join(folder, 'dist', 'broken', 'src'))).toBe('@acme/shop');
  });

  it('is none where no folder up to the root has one', () => {
    expect(nearestPackage('/nowhere/at/all')).toBeUndefined();
  });
});
