import { connect } from 'node:net';

const CONNECT_MS = 2000;
const SESSION_MS = 4000;
const DELETE = 2;
const GET_CHILDREN = 8;
const CLOSE = -11;
const NO_NODE = -101;

/** A session of the administrator, past the library and past the faulty network: the few requests that faults need. */
export class ZookeeperSession {
  #socket;
  #received = Buffer.alloc(0);
  #waiting = [];
  #xid = 0;

  /** @param {number} port @throws Error when no session is opened in time */
  static async open(port) {
    const session = new ZookeeperSession();
    const request = Buffer.alloc(44);
    request.writeInt32BE(SESSION_MS, 12);
    request.writeInt32BE(16, 24);
    session.#socket = connect(port, '127.0.0.1', () => session.#write(request));
    session.#socket.setTimeout(CONNECT_MS, () => session.#socket.destroy());
    session.#socket.on('data', (chunk) => session.#read(chunk)).on('error', () => undefined);
    session.#socket.on('close', () => session.#fail());
    await session.#next();
    return session;
  }

  /** The names below a node; none where it does not exist. @param {string} path @returns {Promise<string[]>} */
  async childrenOf(path) {
    const reply = await this.#request(GET_CHILDREN, textOf(path), Buffer.from([0]));
    if (reply.readInt32BE(12) === NO_NODE) return [];
    const names = [];
    for (let i = 0, at = 20; i < reply.readInt32BE(16); i++) {
      const length = reply.readInt32BE(at);
      names.push(reply.toString('utf8', at + 4, at + 4 + length));
      at += 4 + length;
    }
    return names;
  }

  /** Deletes a node, whatever its version; one that does not exist is fine. @param {string} path */
  async delete(path) {
    const anyVersion = Buffer.alloc(4, 0xff);
    await this.#request(DELETE, textOf(path), anyVersion);
  }

  async close() {
    await this.#request(CLOSE).catch(() => undefined);
    this.#socket.destroy();
  }

  #request(type, ...parts) {
    const header = Buffer.alloc(8);
    header.writeInt32BE(++this.#xid);
    header.writeInt32BE(type, 4);
    this.#write(Buffer.concat([header, ...parts]));
    return this.#next();
  }

  #write(bytes) {
    const length = Buffer.alloc(4);
    length.writeInt32BE(bytes.length);
    this.#socket.write(Buffer.concat([length, bytes]));
  }

  /** The next reply. Requests are answered in order. @returns {Promise<Buffer>} */
  #next() {
    if (this.#socket.destroyed) return Promise.reject(new Error('The connection is closed.'));
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  #read(chunk) {
    this.#received = Buffer.concat([this.#received, chunk]);
    while (this.#received.length >= 4 && this.#received.length >= 4 + this.#received.readInt32BE(0)) {
      const end = 4 + this.#received.readInt32BE(0);
      this.#waiting.shift()?.resolve(this.#received.subarray(4, end));
      this.#received = this.#received.subarray(end);
    }
  }

  #fail() {
    for (const { reject } of this.#waiting.splice(0)) reject(new Error('The connection was closed.'));
  }
}

function textOf(text) {
  const bytes = Buffer.from(text);
  const length = Buffer.alloc(4);
  length.writeInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}
