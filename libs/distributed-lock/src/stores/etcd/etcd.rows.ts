import type { NoteRow, Row } from '../session/session-backend.js';
import type { EtcdKeys } from './etcd.keys.js';
import type { KeyValue, RequestOp, ResponseOp } from './etcd.messages.js';

/** Reads the document of a name and its notes. */
export function rowOps(keys: EtcdKeys, name: string): readonly [RequestOp, RequestOp] {
  return [{ requestRange: { key: keys.document(name) } }, { requestRange: keys.notes(name) }];
}

/** @param responses to `rowOps`, at the end of those of a transaction */
export function rowIn(keys: EtcdKeys, name: string, responses: readonly ResponseOp[], revision: number): Row {
  const [document, notes] = responses.slice(-2).map(({ responseRange }) => responseRange?.kvs ?? []);
  const [found] = document as readonly KeyValue[];
  return {
    name,
    version: found?.modRevision,
    text: found?.value.toString() ?? null,
    writtenAt: found?.modRevision ?? 0,
    ...(found && { createdAt: found.createRevision }),
    revision,
    notes: (notes as readonly KeyValue[]).map((note) => noteIn(keys, name, note)).sort(inOrder),
    notesRead: revision,
  };
}

function noteIn(keys: EtcdKeys, name: string, { key, value, modRevision }: KeyValue): NoteRow {
  return { id: keys.noteId(name, key), text: value.toString(), at: modRevision };
}

/** Notes of one request have one revision, and ids that grow. */
function inOrder(a: NoteRow, b: NoteRow): number {
  return a.at - b.at || (a.id < b.id ? -1 : 1);
}
