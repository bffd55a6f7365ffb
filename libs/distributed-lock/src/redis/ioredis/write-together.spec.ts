import { Writable } from 'node:stream';
import { describe, expect, it } from '@jest/globals';
import { writeNow, writeTogether } from './write-together.js';

/** A stream that records what reaches its socket by `write`, and by `writev` as a list. */
function recorded() {
  const batches: (string | readonly string[])[] = [];
  const stream = new Writable({
    decodeStrings: false,
    write: (chunk: string, _encoding, done) => (batches.push(chunk), done()),
    writev: (chunks, done) => (batches.push(chunks.map(({ chunk }) => String(chunk))), done()),
  });
  return { stream, batches };
}

describe('what is written in one turn', () => {
  it('leaves as one, also what follows in its microtasks, and the next turn as another', async () => {
    const { stream, batches } = recorded();
    const write = (text: string) => {
      writeTogether(stream);
      stream.write(text);
    };
    write('a');
    void Promise.resolve().then(() => write('b'));
    expect(batches).toEqual([]);
    await new Promise((resolve) => setImmediate(resolve));
    write('c');
    await new Promise((resolve) => setImmediate(resolve));
    expect(batches).toEqual(['ab', 'c']);
  });

  it('leaves in several, where it is much: the server answers the first while the last is made', async () => {
    const { stream, batches } = recorded();
    for (let i = 0; i < 40; i++) {
      writeTogether(stream);
      stream.write('x');
    }
    await new Promise((resolve) => setImmediate(resolve));
    expect(batches.map(({ length }) => length)).toEqual([16, 16, 8]);
  });

  it('to several streams leaves to each', async () => {
    const [one, two] = [recorded(), recorded()];
    for (const { stream } of [one, two, one]) {
      writeTogether(stream);
      stream.write('x');
    }
    await new Promise((resolve) => setImmediate(resolve));
    expect([one.batches, two.batches]).toEqual([['xx'], ['x']]);
  });

  it('leaves at once as far as it is pressing, and what follows as another', async () => {
    const { stream, batches } = recorded();
    for (const text of ['a', 'b', 'c', 'd']) {
      writeTogether(stream);
      stream.write(text);
      if (text === 'b') writeNow(stream);
    }
    expect(batches).toEqual(['ab']);
    await new Promise((resolve) => setImmediate(resolve));
    expect(batches.slice(1)).toEqual(['cd']);
  });

  it('leaves as a list if it is not all text, so that no byte changes', async () => {
    const { stream, batches } = recorded();
    for (const chunk of ['a', Buffer.from('b')]) {
      writeTogether(stream);
      stream.write(chunk);
    }
    await new Promise((resolve) => setImmediate(resolve));
    expect(batches).toEqual([['a', 'b']]);
  });
});
