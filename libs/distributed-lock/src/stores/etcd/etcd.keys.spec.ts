import { describe, expect, it } from '@jest/globals';
import { EtcdKeys, type KeyRange } from './etcd.keys.js';

const keys = new EtcdKeys('nest-lock/');
const holds = ({ key, rangeEnd }: KeyRange, other: Buffer): boolean =>
  Buffer.compare(key, other) <= 0 && Buffer.compare(other, rangeEnd) < 0;

describe('the keys of etcd', () => {
  it('read as the page on the stores of documents says', () => {
    expect(String(keys.document('goods:42'))).toBe('nest-lock/l/goods:42');
    expect(String(keys.note('goods:42', '5f.0'))).toBe('nest-lock/q/goods:42\0' + '5f.0');
    expect(String(keys.session('5f'))).toBe('nest-lock/s/5f');
    expect(String(keys.mailbox('c'))).toBe('nest-lock/m/c');
  });

  it('of the notes of a name are those of no other name', () => {
    const names = ['a', 'a\0', 'a\0a', 'a\0\0', 'a\0\xff', '\0a', '', '\0', 'a/', 'ab', 'a\u00ff', '🔒'];
    const ids = ['0', 'ffffffffffffe.00000000000f'];
    for (const name of names) {
      const found = names.filter((other) => ids.some((id) => holds(keys.notes(name), keys.note(other, id))));
      expect(found).toEqual([name]);
      for (const id of ids) expect(keys.noteId(name, keys.note(name, id))).toBe(id);
    }
  });
});
