import { CODE, JuteWriter } from '../../../../libs/distributed-lock/src/zookeeper/client/protocol.js';
import type { Result } from './draft.js';
import type { Operation } from './requests.js';
import type { Znode } from './tree.js';

export type WatchKind = 'changed' | 'deleted';

const EVENT_TYPES: Readonly<Record<WatchKind, number>> = { deleted: 2, changed: 3 };
const RESULT_TYPES: Readonly<Record<Operation['op'], number>> = {
  create: 1,
  delete: 2,
  'set data': 5,
  check: 13,
};
const CONNECTED = 3;

interface Head {
  readonly xid: number;
  readonly zxid: number;
  readonly code?: number;
}

export function replyTo(
  { xid, zxid, code = CODE.ok }: Head,
  write?: (writer: JuteWriter) => unknown,
): Buffer {
  const writer = new JuteWriter().int(xid).long(BigInt(zxid)).int(code);
  write?.(writer);
  return writer.frame();
}

export function eventOf(path: string, kind: WatchKind): Buffer {
  return replyTo({ xid: -1, zxid: -1 }, (writer) => writer.int(EVENT_TYPES[kind]).int(CONNECTED).text(path));
}

export function writeStat(writer: JuteWriter, node: Znode): JuteWriter {
  const { czxid, mzxid, pzxid, version, creations, owner, data, children } = node;
  // As of old, when each creation and each deletion of a child was counted.
  const childChanges = 2 * creations - children.size;
  return writer
    .long(BigInt(czxid))
    .long(BigInt(mzxid))
    .long(0n)
    .long(0n)
    .int(version)
    .int(childChanges)
    .int(0)
    .long(owner)
    .int(Buffer.byteLength(data))
    .int(children.size)
    .long(BigInt(pzxid));
}

export function writeChildren(writer: JuteWriter, node: Znode): JuteWriter {
  writer.int(node.children.size);
  for (const name of node.children) writer.text(name);
  return writeStat(writer, node);
}

export function writeResults(
  writer: JuteWriter,
  operations: readonly Operation[],
  results: readonly Result[],
): void {
  operations.forEach(({ op }, i) => {
    const { path, node } = results[i] ?? {};
    writer.int(RESULT_TYPES[op]).bool(false).int(0);
    if (path !== undefined) writer.text(path);
    if (node) writeStat(writer, node);
  });
  writer.int(-1).bool(true).int(-1);
}

/** Nothing was executed, because one operation failed. */
export function writeFailure(
  writer: JuteWriter,
  count: number,
  { index, code }: { readonly index: number; readonly code: number },
): void {
  for (let i = 0; i < count; i++) {
    const own = i < index ? CODE.ok : i === index ? code : CODE.otherFailed;
    writer.int(-1).bool(false).int(own).int(own);
  }
  writer.int(-1).bool(true).int(-1);
}
