import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import { lockKey } from 'nestjs-distributed-lock';

const page = readFileSync(fileURLToPath(new URL('../../docs/keys.md', import.meta.url)), 'utf8');
const table = page.slice(page.indexOf('## Escaping'), page.indexOf('For Java'));
const rows = [...table.matchAll(/^\| `(.+?)` +\| `(.+?)` +\|$/gm)].map(
  ([, value, key]) => [value, key] as const,
);

describe('the page of keys', () => {
  it('shows how values are escaped', () => {
    expect(rows.length).toBeGreaterThan(8);
  });

  it('is right about templates that make one key: never with colons between their parts, and with hyphens they may', () => {
    expect(lockKey`goods-${'old-7'}`).toBe(lockKey`goods-old-${7}`);
    expect(lockKey`goods:${'old:7'}`).not.toBe(lockKey`goods:old:${7}`);
    expect(lockKey`goods:${'7:lines'}`).not.toBe(lockKey`goods:${7}:lines`);
  });

  it.each(rows as [string, string][])('escapes %s as the library does', (value, key) => {
    expect(lockKey`${value}`).toBe(key);
  });
});
