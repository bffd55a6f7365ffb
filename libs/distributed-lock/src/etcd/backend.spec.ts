import { describe, expect, it } from '@jest/globals';
import { EtcdKeys } from './backend.js';

const keys = new EtcdKeys('nest-lock/');
const holds = ({ key, rangeEnd }: ReturnType<EtcdKeys['notes']>, other: Buffer): boolean =>
  Buffer.compare(key, other) <= 0 && Buffer.compare(other, rangeEnd) < 0;

describe('the keys of etcd', () => {
  it('read as the page on the stores of documents says', () => {
    expect(String(keys.document('goods:42'))).toBe('nest-lock/l/goods:42');
    expect(String(keys.note('goods:42', '5f.0'))).toBe('nest-lock/q/goods:42\0' + '5f.0');
    expect(String(keys.session('5f'))).toBe('nest-lock/s/5f');
    expect(String(keys.mailbox('c'))).toBe('nest-lock/m/c');
    expect(String(keys.holderEntry('c'))).toBe('nest-lock/i/c');
  });

  it('of documents are listed from the place of a cursor on, and never outside of the prefix', () => {
    const names = ['a', 'goods:', 'goods:1', 'goods:1\0', 'goods:2', 'goods:é', 'goods:🔒', 'h'];
    const listed = (after?: string) => {
      const range = keys.documents('goods:', after === undefined ? undefined : keys.keyAt(after));
      return names.filter((name) => holds(range, keys.document(name)));
    };
    expect(listed()).toEqual(names.slice(1, 7));
    for (const [i, name] of names.entries()) {
      const first = Math.max(1, i + 1);
      expect(listed(keys.cursorOf(keys.document(name)))).toEqual(names.slice(first, 7));
    }
    for (const odd of ['', '?', '../../../s'])
      expect(names.slice(1, 7)).toEqual(expect.arrayContaining(listed(odd)));
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
