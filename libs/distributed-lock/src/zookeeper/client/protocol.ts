import type { StoreFailure } from '../../connection/connection-errors.js';

/** The server sent bytes that are not ZooKeeper's protocol. The connection is closed. */
export class ProtocolError extends Error {}

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

  /** Reads a 64-bit number. A zxid stays below 2^53 for the first two million elections of the ensemble. */
  number(): number {
    const long = this.long();
    const number = Number(long);
    if (Number.isSafeInteger(number)) return number;
    throw new ProtocolError(
      `the number ${long} is beyond 2^53: this ZooKeeper has had over two million elections`,
    );
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

const OP = {
  create: 1,
  delete: 2,
  exists: 3,
  getData: 4,
  setData: 5,
  sync: 9,
  getChildren2: 12,
  check: 13,
  multi: 14,
  auth: 100,
  closeSession: -11,
  error: -1,
} as const;
const AUTH_XID = -4;

/** All rights of an ACL: ZooKeeper adds up read 1, write 2, create 4, delete 8 and admin 16. */
const ALL_RIGHTS = 31;
const EPHEMERAL = 1;
const SEQUENTIAL = 2;

/** As the version in a request: the znode may have any version. */
export const ANY_VERSION = -1;

/** The metadata of a znode. A zxid is the number of a transaction; it grows. */
interface Stat {
  /** The zxid of the transaction that created the znode. */
  readonly czxid: number;
  /** The zxid of the last transaction that wrote its data. */
  readonly mzxid: number;
  /** How many times its data was written since its creation. */
  readonly version: number;
  /** How many children were ever created under it. ZooKeeper numbers sequential children by it. */
  readonly creations: number;
  readonly childCount: number;
  /** The zxid of the last transaction that created or deleted a child. */
  readonly pzxid: number;
}

export interface Node {
  readonly data: string;
  readonly stat: Stat;
}

export interface Children {
  readonly names: readonly string[];
  readonly stat: Stat;
}

type Write = (writer: JuteWriter) => unknown;

/** A request to the server, and how to read its reply. */
export class Request<Reply> {
  static readonly closeSession = new Request<void>(
    OP.closeSession,
    () => undefined,
    () => undefined,
  );

  /** The number by which the reply names this request. `undefined`: the connection chooses one. */
  readonly xid: number | undefined;

  private constructor(
    readonly op: number,
    readonly write: Write,
    readonly read: (reader: JuteReader) => Reply,
  ) {
    this.xid = op === OP.auth ? AUTH_XID : undefined;
  }

  static getData(path: string, isWatched = false): Request<Node> {
    return new Request(
      OP.getData,
      (writer) => writer.text(path).bool(isWatched),
      (reader) => ({ data: reader.text(), stat: readStat(reader) }),
    );
  }

  static exists(path: string): Request<Stat> {
    return new Request(OP.exists, (writer) => writer.text(path).bool(false), readStat);
  }

  static getChildren(path: string): Request<Children> {
    return new Request(
      OP.getChildren2,
      (writer) => writer.text(path).bool(false),
      (reader) => ({ names: reader.texts(), stat: readStat(reader) }),
    );
  }

  /** Makes the server catch up with the leader before it answers later reads of this connection. */
  static sync(path: string): Request<string> {
    return new Request(
      OP.sync,
      (writer) => writer.text(path),
      (reader) => reader.text(),
    );
  }

  /** Authenticates the connection with the scheme `digest`; `credentials` is `user:password`. */
  static authenticate(credentials: string): Request<void> {
    return new Request(
      OP.auth,
      (writer) => writer.int(0).text('digest').text(credentials),
      () => undefined,
    );
  }

  /** One transaction of several operations: the server executes all of them or none. */
  static multi(operations: readonly Operation[]): Request<MultiReply> {
    const write: Write = (writer) => {
      for (const operation of operations) {
        writer.int(operation.op).bool(false).int(-1);
        operation.write(writer);
      }
      writer.int(-1).bool(true).int(-1);
    };
    return new Request(OP.multi, write, readMulti);
  }

  frame(xid: number): Buffer {
    const writer = new JuteWriter().int(xid).int(this.op);
    this.write(writer);
    return writer.frame();
  }
}

/** One write of a `Request.multi`. */
export class Operation {
  private constructor(
    readonly op: number,
    readonly write: Write,
  ) {}

  static create(path: string, options: CreateOptions): Operation {
    const { acl, data = '', isEphemeral = false, isSequential = false } = options;
    const flags = (isEphemeral ? EPHEMERAL : 0) + (isSequential ? SEQUENTIAL : 0);
    return new Operation(OP.create, (writer) => {
      writer.text(path).text(data).int(1).int(ALL_RIGHTS);
      if (acl === 'open') writer.text('world').text('anyone');
      else writer.text('auth').text('');
      writer.int(flags);
    });
  }

  static setData(path: string, data: string, version: number): Operation {
    return new Operation(OP.setData, (writer) => writer.text(path).text(data).int(version));
  }

  static remove(path: string, version: number): Operation {
    return new Operation(OP.delete, (writer) => writer.text(path).int(version));
  }

  /** Makes the multi fail if the znode does not exist or has another version. */
  static check(path: string, version: number): Operation {
    return new Operation(OP.check, (writer) => writer.text(path).int(version));
  }

  get isCreation(): boolean {
    return this.op === OP.create;
  }
}

/** Who may use the znodes that this client creates: everybody, or only clients with the same user and password. */
export type Acl = 'open' | 'own';

interface CreateOptions {
  readonly acl: Acl;
  readonly data?: string;
  readonly isEphemeral?: boolean;
  /** The server appends a number of ten digits to the path. It grows with each child of the parent. */
  readonly isSequential?: boolean;
}

type MultiReply =
  | { readonly isDone: true }
  /** The operation at `index` failed with `code`, so the server executed none of them. */
  | { readonly isDone: false; readonly index: number; readonly code: number };

/**
 * Reads the reply to a multi. If the server refused it, the reply has one error code per operation, and the operation that failed
 * is the first one with a code of its own. The results of an executed multi are not needed.
 */
function readMulti(reader: JuteReader): MultiReply {
  const codes: number[] = [];
  for (;;) {
    const op = reader.int();
    const isEnd = reader.bool();
    reader.int();
    if (isEnd || op !== OP.error) break;
    codes.push(reader.int());
  }
  if (codes.length === 0) return { isDone: true };
  const index = codes.findIndex((code) => code !== CODE.ok && code !== CODE.otherFailed);
  return { isDone: false, index: Math.max(0, index), code: codes[index] ?? CODE.otherFailed };
}

function readStat(reader: JuteReader): Stat {
  const czxid = reader.number();
  const mzxid = reader.number();
  reader.long(); // ctime
  reader.long(); // mtime
  const version = reader.int();
  const childChanges = reader.int();
  reader.int(); // version of the ACL
  reader.long(); // the session of an ephemeral znode
  reader.int(); // length of the data
  const childCount = reader.int();
  const creations = ((childChanges + childCount) >>> 0) / 2;
  return { czxid, mzxid, version, creations, childCount, pzxid: reader.number() };
}

/** The first message on each connection. It opens a session (`sessionId` is 0) or resumes one. */
export interface Handshake {
  readonly sessionId: bigint;
  readonly password: Buffer;
  readonly timeoutMs: number;
  /**
   * The newest zxid that this client has seen. A server that is behind it refuses the connection, so the client never reads older
   * data.
   */
  readonly lastZxid: number;
}

export function handshakeFrame({ sessionId, password, timeoutMs, lastZxid }: Handshake): Buffer {
  const writer = new JuteWriter().int(0).long(BigInt(lastZxid)).int(timeoutMs);
  return writer.long(sessionId).buffer(password).bool(false).frame();
}

/** Reads the server's reply to the handshake. A `timeoutMs` of 0 or less means that the session has expired. */
export function readHandshake(reader: JuteReader): Omit<Handshake, 'lastZxid'> {
  const version = reader.int();
  if (version !== 0) throw new ProtocolError(`version ${version} of the protocol, where 0 is expected`);
  const timeoutMs = reader.int();
  const sessionId = reader.long();
  return { timeoutMs, sessionId, password: reader.buffer() };
}

/** ZooKeeper's error codes in replies. */
export const CODE = {
  ok: 0,
  /** In the reply to a multi: this operation was not executed because another one failed. */
  otherFailed: -2,
  connectionLoss: -4,
  marshalling: -5,
  unimplemented: -6,
  badArguments: -8,
  noNode: -101,
  noAuth: -102,
  badVersion: -103,
  nodeExists: -110,
  notEmpty: -111,
  sessionExpired: -112,
  invalidAcl: -114,
  authFailed: -115,
  sessionMoved: -118,
  quotaExceeded: -125,
  throttled: -127,
} as const;

const WORDS = new Map<number, string>([
  [CODE.connectionLoss, 'it lost its own connection'],
  [CODE.marshalling, 'it could not read the request'],
  [CODE.unimplemented, 'it does not know this request; ZooKeeper 3.5 or later is needed'],
  [CODE.badArguments, 'a path or a value is not allowed'],
  [CODE.noNode, 'a znode does not exist'],
  [CODE.noAuth, 'this client has no right to the znode: check the option auth'],
  [CODE.badVersion, 'the znode has another version'],
  [CODE.nodeExists, 'the znode exists'],
  [CODE.notEmpty, 'the znode has children'],
  [CODE.sessionExpired, 'the session has expired'],
  [CODE.invalidAcl, 'it does not take the ACL: check the option auth'],
  [CODE.authFailed, 'the authentication failed: check the option auth'],
  [CODE.sessionMoved, 'the session has moved to another server'],
  [CODE.quotaExceeded, 'a quota is exceeded: raise it, or remove it with delquota'],
  [CODE.throttled, 'it has too much to do'],
]);

/** Error codes after which ZooKeeper would refuse the same request again. */
const REFUSED: readonly number[] = [
  CODE.marshalling,
  CODE.unimplemented,
  CODE.badArguments,
  CODE.noAuth,
  CODE.invalidAcl,
  CODE.authFailed,
  CODE.quotaExceeded,
];

/** A request failed. `reason` says whether the server may have executed it. */
export class ZookeeperError extends Error {
  constructor(
    readonly reason: StoreFailure['reason'],
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** The connection was lost before the reply came. */
export class ConnectionLostError extends ZookeeperError {
  constructor(cause: Error) {
    super('unknown', cause.message, { cause });
  }
}

/** The server replied with an error code, so it has certainly not executed the request. */
export class ZookeeperRefusalError extends ZookeeperError {
  constructor(readonly code: number) {
    const words = WORDS.get(code) ?? 'an error of ZooKeeper';
    super(REFUSED.includes(code) ? 'refused' : 'unready', `${words} (code ${code})`);
  }
}
