import { ProtocolError } from './jute.js';

/** `jute.maxbuffer` of a server that is not configured: it drops the connection that a longer request comes from. */
export const MAX_REQUEST_BYTES = 0xfffff;
/** A longer message is no reply of ZooKeeper. */
const MAX_REPLY_BYTES = 16 * 1024 * 1024;

/** Cuts what arrives on a connection into messages. */
export class Frames {
  private chunks: Buffer[] = [];
  private length = 0;
  /** The bytes needed before anything can be cut. */
  private needed = 4;

  /** @returns the messages that are complete now @throws ProtocolError for a length that no message has */
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
