import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';

const ROOT = new URL('../../', import.meta.url);
const SRC = new URL('libs/distributed-lock/src/', ROOT);

const sources = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((file) => /\.(ts|lua)$/.test(file) && !file.endsWith('.spec.ts'))
  .map((file) => readFileSync(new URL(file, SRC), 'utf8'));

/** The names in one row of the table, in order; a name without a class belongs to the class before it, or is a function. */
function chainOf(row: string): readonly string[] {
  return [...row.matchAll(/`([\w.]+)`/g)].map(([, name = '']) => name);
}

/** Whether a class of the library has the method, or a file has a function of that name. */
function exists(className: string | undefined, name: string): boolean {
  const isFunction = new RegExp(String.raw`^(export |local )*(async )?function ${name}\b`, 'm');
  const isClass = new RegExp(String.raw`\bclass ${className}\b`);
  const isMethod = new RegExp(String.raw`^ +[\w ]*\b${name}(<\w+>)?\(`, 'm');
  return sources.some((text) => isFunction.test(text) || (isClass.test(text) && isMethod.test(text)));
}

describe('the call chain in docs/architecture.md', () => {
  const page = readFileSync(new URL('docs/architecture.md', ROOT), 'utf8');
  const [, section = ''] = page.split('### The call chain\n');
  const rows = section.split('\n## ', 1)[0]?.match(/^\| +\d.*$/gm) ?? [];

  it('has a row for each step of the story', () => {
    expect(rows.length).toBeGreaterThan(8);
  });

  it.each(rows)('%s', (row) => {
    let className: string | undefined;
    const missing = chainOf(row).filter((step) => {
      const [first = '', method] = step.split('.');
      if (method !== undefined) className = first;
      return !exists(className, method ?? first);
    });
    expect(missing).toEqual([]);
  });
});
