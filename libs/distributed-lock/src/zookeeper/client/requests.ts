import { type JuteReader, JuteWriter, ProtocolError, safeNumber } from './jute.js';

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
export interface Stat {
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

export interface Request<Reply> {
  readonly op: number;
  readonly xid?: number;
  readonly write: (writer: JuteWriter) => unknown;
  readonly read: (reader: JuteReader) => Reply;
}

/** Who may use the znodes that this client creates: everybody, or only clients with the same user and password. */
export type Acl = 'open' | 'own';

export function getData(path: string, isWatched = false): Request<Node> {
  return { op: OP.getData, write: (writer) => writer.text(path).bool(isWatched), read: readNode };
}

export function exists(path: string): Request<Stat> {
  return { op: OP.exists, write: (writer) => writer.text(path).bool(false), read: readStat };
}

export function getChildren(path: string): Request<Children> {
  return {
    op: OP.getChildren2,
    write: (writer) => writer.text(path).bool(false),
    read: (reader) => ({ names: reader.texts(), stat: readStat(reader) }),
  };
}

/** Makes the server catch up with the leader before it answers later reads of this connection. */
export function sync(path: string): Request<string> {
  return { op: OP.sync, write: (writer) => writer.text(path), read: (reader) => reader.text() };
}

/** Authenticates the connection with the scheme `digest`; `credentials` is `user:password`. */
export function addAuth(credentials: string): Request<void> {
  return {
    op: OP.auth,
    xid: AUTH_XID,
    write: (writer) => writer.int(0).text('digest').text(credentials),
    read: () => undefined,
  };
}

export const closeSession: Request<void> = {
  op: OP.closeSession,
  write: () => undefined,
  read: () => undefined,
};

export interface Operation {
  readonly op: number;
  readonly write: (writer: JuteWriter) => unknown;
}

export function isCreation({ op }: Operation): boolean {
  return op === OP.create;
}

interface CreateOptions {
  readonly acl: Acl;
  readonly data?: string;
  readonly isEphemeral?: boolean;
  /** The server appends a number of ten digits to the path. It grows with each child of the parent. */
  readonly isSequential?: boolean;
}

export function create(path: string, options: CreateOptions): Operation {
  const { acl, data = '', isEphemeral = false, isSequential = false } = options;
  const flags = (isEphemeral ? EPHEMERAL : 0) + (isSequential ? SEQUENTIAL : 0);
  return {
    op: OP.create,
    write(writer) {
      writer.text(path).text(data).int(1).int(ALL_RIGHTS);
      if (acl === 'open') writer.text('world').text('anyone');
      else writer.text('auth').text('');
      writer.int(flags);
    },
  };
}

export function setData(path: string, data: string, version: number): Operation {
  return { op: OP.setData, write: (writer) => writer.text(path).text(data).int(version) };
}

export function remove(path: string, version: number): Operation {
  return { op: OP.delete, write: (writer) => writer.text(path).int(version) };
}

/** Makes the multi fail if the znode does not exist or has another version. */
export function check(path: string, version: number): Operation {
  return { op: OP.check, write: (writer) => writer.text(path).int(version) };
}

type MultiReply =
  | { readonly isDone: true }
  /** The operation at `index` failed with `code`, so the server executed none of them. */
  | { readonly isDone: false; readonly index: number; readonly code: number };

/** One transaction of several operations: the server executes all of them or none. */
export function multi(operations: readonly Operation[]): Request<MultiReply> {
  return {
    op: OP.multi,
    write(writer) {
      for (const operation of operations) {
        writer.int(operation.op).bool(false).int(-1);
        operation.write(writer);
      }
      writer.int(-1).bool(true).int(-1);
    },
    read: readMulti,
  };
}

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

function readNode(reader: JuteReader): Node {
  return { data: reader.text(), stat: readStat(reader) };
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

/** The id of a session as 16 hexadecimal digits. It uses all 64 bits, so a number cannot hold it. */
export function sessionIdText(id: bigint): string {
  return BigInt.asUintN(64, id).toString(16).padStart(16, '0');
}

export function frameOf(request: Request<unknown>, xid: number): Buffer {
  const writer = new JuteWriter().int(xid).int(request.op);
  request.write(writer);
  return writer.frame();
}

export interface ReplyHead {
  readonly xid: number;
  readonly zxid: number;
  readonly code: number;
}

export function readHead(reader: JuteReader): ReplyHead {
  const xid = reader.int();
  const zxid = reader.long();
  // The server sends a watch event on its own, with -1 in place of a zxid.
  return { xid, zxid: zxid < 0n ? 0 : safeNumber(zxid), code: reader.int() };
}

export interface WatchEvent {
  readonly path: string;
}

export function readEvent(reader: JuteReader): WatchEvent {
  reader.int(); // its kind: created, deleted, changed, or children
  reader.int(); // the state of the session
  return { path: reader.text() };
}

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

export interface HandshakeReply {
  /** The length of the session that the server granted. 0 or less means that the session has expired. */
  readonly timeoutMs: number;
  readonly sessionId: bigint;
  readonly password: Buffer;
}

export function handshakeFrame({ sessionId, password, timeoutMs, lastZxid }: Handshake): Buffer {
  return new JuteWriter()
    .int(0)
    .long(BigInt(lastZxid))
    .int(timeoutMs)
    .long(sessionId)
    .buffer(password)
    .bool(false)
    .frame();
}

export function readHandshake(reader: JuteReader): HandshakeReply {
  const version = reader.int();
  if (version !== 0) throw new ProtocolError(`version ${version} of the protocol, where 0 is expected`);
  const timeoutMs = reader.int();
  const sessionId = reader.long();
  const password = reader.buffer();
  return { timeoutMs, sessionId, password };
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

/** The server replied with an error code, so it has certainly not executed the request. */
export class ZookeeperRefusalError extends Error {
  constructor(readonly code: number) {
    super(`${WORDS.get(code) ?? 'an error of ZooKeeper'} (code ${code})`);
  }
}
