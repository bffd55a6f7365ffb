import { readFile } from 'node:fs/promises';
import { describe, expect, it } from '@jest/globals';
import { kindsOf, MUTANTS, mutate } from '../../../chaos/index.mjs';

const BUILT = new URL('../../../dist/library/', import.meta.url);

describe('the mutants, which npm run chaos -- --mutants convicts', () => {
  it.each(MUTANTS)('$store $says: that is a change of the library as it is built', async (mutant) => {
    const source = await readFile(new URL(mutant.file, BUILT), 'utf8');
    expect(mutate(source, mutant)).not.toBe(source);
    expect(kindsOf(mutant.store ?? 'redis').map(({ name }) => name)).toContain(mutant.kind);
  });

  it('a mutant that changes nothing any more says so', () => {
    const [mutant] = MUTANTS;
    if (!mutant) throw new Error('There are no mutants.');
    expect(() => mutate('another text', mutant)).toThrow(`any more`);
  });
});
