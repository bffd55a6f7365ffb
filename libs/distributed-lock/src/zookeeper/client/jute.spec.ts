import { describe, expect, it } from '@jest/globals';
import { JuteReader, JuteWriter, ProtocolError } from './protocol.js';

const written = (write: (writer: JuteWriter) => unknown): Buffer => {
  const writer = new JuteWriter();
  write(writer);
  return writer.frame();
};

const contentOf = (frame: Buffer): Buffer => frame.subarray(4);

describe('the encoding of ZooKeeper', () => {
  it('puts the length before a message, and before each text and piece of bytes', () => {
    const frame = written((writer) =>
      writer
        .int(-2)
        .bool(true)
        .text('ä')
        .buffer(Buffer.from([7])),
    );
    expect(frame.toString('hex')).toBe('00000010fffffffe0100000002c3a40000000107');
  });

  it('reads what it has written', () => {
    const long = -(2n ** 63n);
    const text = 'x'.repeat(5000) + '🔒';
    const frame = written((writer) => writer.long(long).text('').text(text).int(7).bool(false));
    const reader = new JuteReader(contentOf(frame));
    expect([reader.long(), reader.text(), reader.text(), reader.int()]).toEqual([long, '', text, 7]);
    expect(reader.bool()).toBe(false);
    expect(() => reader.bool()).toThrow(ProtocolError);
  });

  it('reads a missing text and missing bytes, whose length is -1, as empty', () => {
    const reader = new JuteReader(contentOf(written((writer) => writer.int(-1).int(-1).int(-1))));
    expect([reader.text(), reader.buffer().length, reader.texts()]).toEqual(['', 0, []]);
  });

  it('refuses a message that ends before its content, wherever it is cut', () => {
    const frame = written((writer) => writer.int(2).text('one').text('two').long(5n));
    const content = contentOf(frame);
    for (let length = 0; length < content.length; length++) {
      const reader = new JuteReader(content.subarray(0, length));
      expect(() => [reader.texts(), reader.long()]).toThrow(ProtocolError);
    }
  });

  it('does not believe a count that cannot fit into the message', () => {
    const reader = new JuteReader(contentOf(written((writer) => writer.int(2 ** 31 - 1).int(0))));
    expect(() => reader.texts()).toThrow(ProtocolError);
  });

  it('refuses numbers of 64 bits that a number of JavaScript does not hold', () => {
    const read = (long: bigint) => new JuteReader(contentOf(written((writer) => writer.long(long)))).number();
    expect(read(2n ** 53n - 1n)).toBe(Number.MAX_SAFE_INTEGER);
    expect(() => read(2n ** 53n)).toThrow(/beyond 2\^53/);
  });
});
