import { describe, expect, it } from '@jest/globals';
import { Frames } from './connection.js';
import { JuteWriter, ProtocolError } from './protocol.js';

const frameOf = (text: string): Buffer => new JuteWriter().text(text).frame();
const textsIn = (frames: readonly Buffer[]): string[] => frames.map((frame) => frame.toString('utf8', 4));

describe('messages cut from what arrives', () => {
  const sent = ['one', '', 'three'.repeat(100)];
  const bytes = Buffer.concat(sent.map(frameOf));

  it('are the same however the bytes are split', () => {
    for (const size of [1, 2, 3, 5, 7, 64, bytes.length]) {
      const frames = new Frames();
      const got: string[] = [];
      for (let at = 0; at < bytes.length; at += size) {
        got.push(...textsIn(frames.read(bytes.subarray(at, at + size))));
      }
      expect(got).toEqual(sent);
    }
  });

  it('are refused when their length is negative or larger than any reply, before their content arrives', () => {
    for (const length of [-1, -(2 ** 31), 2 ** 31 - 1, 64 * 1024 * 1024]) {
      const head = Buffer.alloc(4);
      head.writeInt32BE(length);
      expect(() => new Frames().read(head)).toThrow(ProtocolError);
    }
  });

  it('are not made from an HTTP answer', () => {
    expect(() => new Frames().read(Buffer.from('HTTP/1.1 400 Bad Request\r\n'))).toThrow(ProtocolError);
  });
});
