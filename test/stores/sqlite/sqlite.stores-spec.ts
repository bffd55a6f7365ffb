import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, jest } from '@jest/globals';
import { sqliteStore } from 'nestjs-distributed-lock/sqlite';
import { nodeWithSqlite } from './support/node-with-sqlite.js';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const JEST = 'node_modules/jest/bin/jest.js';
const ALL = 'test/stores/sqlite/all.sqlite-spec.ts';

describe('sqliteStore', () => {
  it('passes all its tests on a Node that has SQLite', () => {
    const node = nodeWithSqlite();
    if (node === undefined && process.env['CI'] !== 'true') {
      process.stderr.write('Tests are skipped: no Node with SQLite could be fetched.\n');
      return;
    }
    const flags = ['--disable-warning=ExperimentalWarning', '--experimental-vm-modules'];
    const suite = ['-c', 'test/stores/sqlite/jest.config.mjs', '-w', '1', ALL];
    const run = spawnSync(node!, [...flags, JEST, ...suite], { cwd: ROOT, encoding: 'utf8' });
    expect({ status: run.status, output: run.status === 0 ? '' : run.stderr }).toEqual({
      status: 0,
      output: '',
    });
    expect(run.stderr).toMatch(/Tests: +\d{2,} passed/);
  }, 180_000);

  it('is refused on a Node without SQLite, with its version and other stores', () => {
    const builtin = jest.spyOn(process, 'getBuiltinModule').mockReturnValue(undefined as never);
    expect(() => sqliteStore('locks')).toThrow(`This is Node ${process.version}`);
    expect(() => sqliteStore('locks')).toThrow('Node has from 22.13 on');
    builtin.mockRestore();
  });

  it.each([
    [':memory:', 'memoryStore()'],
    ['', 'an empty string'],
    ['postgres://localhost/app', 'a URL'],
    [undefined, 'it was given undefined'],
  ])('refuses %p', (file, says) => {
    expect(() => sqliteStore(file as string)).toThrow(says);
  });
});
