import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { loadTypeScript } from './load-typescript.js';

/** Stands for the program of the Nest CLI, which has a compiler beside it. */
const CLI = fileURLToPath(import.meta.url);

let folder: string;

function install(name: string, code: string): void {
  const place = join(folder, 'node_modules', name);
  mkdirSync(place, { recursive: true });
  writeFileSync(join(place, 'package.json'), `{ "name": "${name}", "main": "index.js" }`);
  writeFileSync(join(place, 'index.js'), code);
}

describe('the compiler that reads the sources', () => {
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'load-typescript-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it('is the one of the application', () => {
    install('typescript', "exports.createSourceFile = () => {}; exports.version = 'of the app';");
    expect(loadTypeScript(folder, CLI)?.version).toBe('of the app');
  });

  it('is the one of the Nest CLI where that of the application has no parser for programs', () => {
    install('typescript', "exports.version = '7.0.0';");
    const found = loadTypeScript(folder, CLI);
    expect(found?.version).not.toBe('7.0.0');
    expect(typeof found?.createSourceFile).toBe('function');
  });

  it('is missing where none is installed', () => {
    expect(loadTypeScript(folder, join(folder, 'nest.js'))).toBeUndefined();
  });
});
