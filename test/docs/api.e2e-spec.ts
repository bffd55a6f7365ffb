import { spawnSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from '@jest/globals';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const files = readdirSync(`${ROOT}/docs`).filter((file) => /^api.*\.md$/.test(file));
const read = (file: string) => readFileSync(`${ROOT}/docs/${file}`, 'utf8');

/** The pages are the report of changes of the API as well: each export, its import path and its signature. */
describe('the API reference', () => {
  let generated: Readonly<Record<string, string>>;

  beforeAll(() => {
    const script = spawnSync(process.execPath, ['tools/api-reference.mjs', '--print'], {
      cwd: ROOT,
      encoding: 'utf8',
      maxBuffer: 2 ** 24,
    });
    if (script.stderr) throw new Error(script.stderr);
    generated = JSON.parse(script.stdout) as Record<string, string>;
  }, 120_000);

  it('has the pages that the script makes, and no others', () => {
    expect(files.toSorted()).toEqual(Object.keys(generated).toSorted());
  });

  it.each(files)('says what the code says; if not: npm run generate: %s', (file) => {
    expect(read(file).split('\n')).toEqual(generated[file]?.split('\n'));
  });

  it('leads to each entry from the contents on its first page', () => {
    const [, contents = ''] = /^## Contents\n([^]*?)^## /m.exec(read('api.md')) ?? [];
    const entries = files.flatMap((file) =>
      [...read(file).matchAll(/^### (.+)$/gm)].map(([, title = '']) => {
        const anchor = title.toLowerCase().replaceAll(' ', '-').replaceAll(/[()]/g, '');
        return `](${file === 'api.md' ? '' : file}#${anchor})`;
      }),
    );
    expect(entries.length).toBeGreaterThan(100);
    expect(new Set(entries).size).toBe(entries.length);
    expect(entries.filter((link) => !contents.includes(link))).toEqual([]);
  });

  it('shows nothing that is private, made by Nest or named by a symbol', () => {
    const text = files.map(read).join('\n');
    expect(text).not.toMatch(/^\s*(private|protected)\b|^#### .*: (intercept|onModuleInit)$|^- `\[[A-Z]/m);
    expect(text).not.toContain('DiscoveryService');
  });
});
