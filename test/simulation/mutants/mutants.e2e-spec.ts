import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { transformSync } from '@swc/core';
import { MUTANTS } from './mutants.js';

const SRC = new URL('../../../libs/distributed-lock/src/', import.meta.url);

describe('the mutants, which npm run simulate:mutants looks for', () => {
  it.each(MUTANTS)('$store: $says', ({ file, from, to }) => {
    const source = readFileSync(new URL(file.replace(/\.js$/, '.ts'), SRC), 'utf8');
    // If there is nothing to change any more, the library has moved on, and the mutant must, too.
    expect(source).toContain(from);
    expect(to).not.toBe(from);
    // It is looked for in what the compiler wrote, which has this on the next line.
    expect(from).not.toMatch(/\) (return|throw|continue|break)\b/);
    // One that cannot be loaded would be found at once, and would say nothing.
    const parser = { syntax: 'typescript', decorators: true } as const;
    expect(() => transformSync(source.replaceAll(from, to), { swcrc: false, jsc: { parser } })).not.toThrow();
  });

  it('are counted on the page of the simulation', () => {
    const page = readFileSync(new URL('../../../docs/simulation.md', import.meta.url), 'utf8');
    const rows = [...page.matchAll(/^\| (\w+) +\| (\d+) +\| \d+ +\| (\d+) +\|$/gm)].map(([, ...row]) =>
      row.join(' '),
    );
    const counts = [...new Set(MUTANTS.map(({ store }) => store))].map((store) => {
      const own = MUTANTS.filter((it) => it.store === store);
      const hidden = own.filter((it) => it.hidden !== undefined).length;
      return `${store} ${own.length - hidden} ${hidden}`;
    });
    expect(rows.toSorted()).toEqual(counts.toSorted());
  });
});
