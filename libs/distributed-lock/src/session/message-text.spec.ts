import { describe, expect, it } from '@jest/globals';
import { parseMessage, serializeMessage } from './json.js';

const ORDER = 900;
const row = {
  name: 'goods',
  version: 5,
  writtenAt: 700,
  notesRead: 690,
  nextTicket: 701,
  text: '[1,0,[],[]]',
  notes: [{ id: 'x', text: 'n', at: 695 }],
};

describe('a message', () => {
  it('carries the document with its notes', () => {
    expect(parseMessage(serializeMessage(row.name, row), ORDER)).toEqual({ ...row, revision: ORDER });
  });

  it('of a write whose revision the writer could not know has that of the message', () => {
    const read = parseMessage(
      serializeMessage(row.name, { ...row, version: undefined, writtenAt: 0 }),
      ORDER,
    );
    expect(read).toMatchObject({ version: ORDER, writtenAt: ORDER });
  });

  it.each(['', 'hello', '7', 'null', '{}', '[]', '[2,"goods",{"text":null}]', '[1,null,{"text":null}]'])(
    'that this release has not written says nothing: %s',
    (text) => {
      expect(parseMessage(text, ORDER)).toBeUndefined();
    },
  );
});
