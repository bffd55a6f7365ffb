import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { afterEach, describe, expect, it } from '@jest/globals';
import { cachedFolder } from '../../../tools/cached-folder/index.mjs';

const NAME = `cached-folder-test-${process.pid}`;

/** Writes `text` to the file `content` of a staging folder. */
const fillWith = (text: string) => (staging: string) => {
  writeFileSync(join(staging, 'content'), text);
  return true;
};

describe('a cached folder', () => {
  let folder: string | undefined;
  afterEach(() => {
    if (folder) rmSync(folder, { recursive: true, force: true });
  });

  const content = () => readFileSync(join(folder!, 'content'), 'utf8');

  it('is filled once', () => {
    folder = cachedFolder(NAME, fillWith('first'));
    expect(cachedFolder(NAME, fillWith('second'))).toBe(folder);
    expect(content()).toBe('first');
  });

  it('is not there when its filling fails, and can be filled later', () => {
    let staging = '';
    expect(cachedFolder(NAME, (it) => ((staging = it), false))).toBeUndefined();
    expect(existsSync(staging)).toBe(false);
    folder = cachedFolder(NAME, fillWith('later'));
    expect(content()).toBe('later');
  });

  it('is that of the process that was faster', () => {
    folder = cachedFolder(NAME, (staging) => {
      const other = join(dirname(staging), basename(staging).replace(/\.\d+$/, ''));
      mkdirSync(other);
      fillWith('of another process')(other);
      return fillWith('ours')(staging);
    });
    expect(content()).toBe('of another process');
  });
});
