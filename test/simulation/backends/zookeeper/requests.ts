import { JuteReader } from '../../../../libs/distributed-lock/src/zookeeper/client/protocol.js';
import { readHandshakeRequest, type Handshake } from './handshake.js';

/** One operation of a multi. */
export type Operation =
  | {
      readonly op: 'create';
      readonly path: string;
      readonly data: string;
      readonly isEphemeral: boolean;
      readonly isSequential: boolean;
    }
  | { readonly op: 'delete' | 'check'; readonly path: string; readonly version: number }
  | { readonly op: 'set data'; readonly path: string; readonly data: string; readonly version: number };

export type Reading =
  | { readonly op: 'exists' | 'children'; readonly path: string }
  | { readonly op: 'data'; readonly path: string; readonly isWatched: boolean };

export type Request = { readonly xid: number } & (
  | Reading
  | { readonly op: 'multi'; readonly operations: readonly Operation[] }
  | { readonly op: 'sync'; readonly path: string }
  | { readonly op: 'close session' }
);

/** The first message on a connection has no number. */
export type WireRequest = Handshake | Request;

/** Reads what a client has written on a connection. */
export function requestIn(frame: Buffer, isFirst: boolean): WireRequest {
  const reader = new JuteReader(frame);
  if (isFirst) return readHandshakeRequest(reader);
  const xid = reader.int();
  const op = reader.int();
  switch (op) {
    case 3:
      return { xid, op: 'exists', path: pathIn(reader) };
    case 4:
      return { xid, op: 'data', path: pathIn(reader), isWatched: reader.bool() };
    case 9:
      return { xid, op: 'sync', path: pathIn(reader) };
    case 12:
      return { xid, op: 'children', path: pathIn(reader) };
    case 14:
      return { xid, op: 'multi', operations: operationsIn(reader) };
    case -11:
      return { xid, op: 'close session' };
    default:
      throw new Error(`the simulated ZooKeeper has no operation ${op}`);
  }
}

function operationsIn(reader: JuteReader): readonly Operation[] {
  const operations: Operation[] = [];
  for (;;) {
    const op = reader.int();
    const isEnd = reader.bool();
    reader.int();
    if (isEnd) return operations;
    operations.push(operationIn(reader, op));
  }
}

function operationIn(reader: JuteReader, op: number): Operation {
  const path = pathIn(reader);
  switch (op) {
    case 1: {
      const data = reader.text();
      skipRights(reader);
      const flags = reader.int();
      return { op: 'create', path, data, isEphemeral: (flags & 1) > 0, isSequential: (flags & 2) > 0 };
    }
    case 2:
      return { op: 'delete', path, version: reader.int() };
    case 5:
      return { op: 'set data', path, data: reader.text(), version: reader.int() };
    case 13:
      return { op: 'check', path, version: reader.int() };
    default:
      throw new Error(`the simulated ZooKeeper has no operation ${op} in a multi`);
  }
}

/** Everybody has every right. */
function skipRights(reader: JuteReader): void {
  for (let count = reader.int(); count > 0; count--) {
    reader.int();
    reader.text();
    reader.text();
  }
}

/** The root is '' here, as if it were the name before the first slash. */
function pathIn(reader: JuteReader): string {
  const path = reader.text();
  return path === '/' ? '' : path;
}
