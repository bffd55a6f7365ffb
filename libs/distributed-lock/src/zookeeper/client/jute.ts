/** The server sent bytes that are not ZooKeeper's protocol. The connection is closed. */
export class ProtocolError extends Error {}

/** Converts a 64-bit number of the protocol. A zxid stays below 2^53 for the first two million elections of the ensemble. */
export function safeNumber(long: bigint): number {
  const number = Number(long);
  if (!Number.isSafeInteger(number)) {
    throw new ProtocolError(
      `the number ${long} is beyond 2^53: this ZooKeeper has had over two million elections`,
    );
  }
  return number;
}

/** Writes one message in ZooKeeper's encoding, Jute: numbers are big-endian, and a string or buffer follows its length. */
export class JuteWriter {
  private bytes = Buffer.allocUnsafe(256);
  private length = 0;

  int(value: number): this {
    this.length = this.roomFor(4).writeInt32BE(value, this.length);
    return this;
  }

  long(value: bigint): this {
    this.length = this.roomFor(8).writeBigInt64BE(value, this.length);
    return this;
  }

  bool(value: boolean): this {
    this.length = this.roomFor(1).writeUInt8(value ? 1 : 0, this.length);
    return this;
  }

  text(value: string): this {
    const length = Buffer.byteLength(value);
    this.int(length);
    this.roomFor(length).write(value, this.length);
    this.length += length;
    return this;
  }

  buffer(value: Buffer): this {
    this.int(value.length);
    value.copy(this.roomFor(value.length), this.length);
    this.length += value.length;
    return this;
  }

  /** Returns the message that was written, with its length in front. */
  frame(): Buffer {
    const frame = Buffer.allocUnsafe(this.length + 4);
    frame.writeInt32BE(this.length);
    this.bytes.copy(frame, 4, 0, this.length);
    return frame;
  }

  private roomFor(more: number): Buffer {
    if (this.length + more > this.bytes.length) {
      const larger = Buffer.allocUnsafe(2 * (this.length + more));
      this.bytes.copy(larger, 0, 0, this.length);
      this.bytes = larger;
    }
    return this.bytes;
  }
}

/**
 * Reads one message in ZooKeeper's encoding.
 *
 * @throws ProtocolError when the message ends too early
 */
export class JuteReader {
  private at = 0;

  constructor(private readonly bytes: Buffer) {}

  int(): number {
    return this.bytes.readInt32BE(this.skip(4));
  }

  long(): bigint {
    return this.bytes.readBigInt64BE(this.skip(8));
  }

  /** Reads a 64-bit number that is below 2^53. */
  number(): number {
    return safeNumber(this.long());
  }

  bool(): boolean {
    return this.bytes.readUInt8(this.skip(1)) !== 0;
  }

  text(): string {
    const length = this.lengthOf();
    const start = this.skip(length);
    return this.bytes.toString('utf8', start, start + length);
  }

  /** Returns a copy. A slice would keep the whole received chunk in memory. */
  buffer(): Buffer {
    const length = this.lengthOf();
    const start = this.skip(length);
    return Buffer.from(this.bytes.subarray(start, start + length));
  }

  texts(): readonly string[] {
    const count = this.lengthOf();
    // Each string takes four bytes at least, for its length. A larger count is corrupt, so do not allocate memory for it.
    if (count > this.bytes.length)
      throw new ProtocolError(`a list of ${count} texts in ${this.bytes.length} bytes`);
    return Array.from({ length: count }, () => this.text());
  }

  /** Reads a length; -1 means that there is no value. */
  private lengthOf(): number {
    return Math.max(0, this.int());
  }

  private skip(length: number): number {
    const { at } = this;
    if (at + length > this.bytes.length) {
      throw new ProtocolError(`a message of ${this.bytes.length} bytes ends before its content`);
    }
    this.at += length;
    return at;
  }
}

/** The default of `jute.maxbuffer`. A server drops a connection that sends it a longer request. */
export const MAX_REQUEST_BYTES = 0xfffff;
/** A frame longer than this cannot be a reply of ZooKeeper, so the connection is closed. */
const MAX_REPLY_BYTES = 16 * 1024 * 1024;

/** Splits the bytes that arrive on a connection into messages. */
export class Frames {
  private chunks: Buffer[] = [];
  private length = 0;
  /** How many bytes must have arrived before the next message is complete. */
  private needed = 4;

  /**
   * Adds a chunk.
   *
   * @returns the messages that are complete now
   * @throws ProtocolError for a length that no message can have
   */
  read(chunk: Buffer): readonly Buffer[] {
    this.chunks.push(chunk);
    this.length += chunk.length;
    if (this.length < this.needed) return [];
    const bytes = this.chunks.length === 1 ? chunk : Buffer.concat(this.chunks, this.length);
    const frames: Buffer[] = [];
    let at = 0;
    this.needed = 4;
    while (at + 4 <= bytes.length) {
      const length = bytes.readInt32BE(at);
      if (length < 0 || length > MAX_REPLY_BYTES) {
        throw new ProtocolError(
          `a message of ${length} bytes, where at most ${MAX_REPLY_BYTES} are expected`,
        );
      }
      if (at + 4 + length > bytes.length) {
        this.needed = 4 + length;
        break;
      }
      frames.push(bytes.subarray(at + 4, at + 4 + length));
      at += 4 + length;
    }
    const rest = bytes.subarray(at);
    this.chunks = rest.length > 0 ? [rest] : [];
    this.length = rest.length;
    return frames;
  }
}
