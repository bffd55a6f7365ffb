import type { NoteRow, DocumentRow } from '../session/session-backend.js';
import type { EtcdKeys } from './etcd.keys.js';
import type { EtcdKeyValue, RequestOp, ResponseOp } from './etcd.messages.js';

/** Reads the document of a name and its notes. */
export function rowOps(keys: EtcdKeys, name: string): readonly [RequestOp, RequestOp] {
  return [{ requestRange: { key: keys.document(name) } }, { requestRange: keys.notes(name) }];
}

/** @param responses the responses of a transaction, whose last ones belong to `rowOps` */
export function rowIn(
  keys: EtcdKeys,
  name: string,
  { responses, revision }: { readonly responses: readonly ResponseOp[]; readonly revision: number },
): DocumentRow {
  const [document, notes] = responses.slice(-2).map(({ responseRange }) => responseRange?.kvs ?? []);
  const [found] = document as readonly EtcdKeyValue[];
  return {
    name,
    version: found?.modRevision,
    text: found?.value.toString() ?? null,
    writtenAt: found?.modRevision ?? 0,
    ...(found && { createdAt: found.createRevision }),
    revision,
    notes: [...(notes as readonly EtcdKeyValue[])].sort(inOrder).flatMap((note) => notesIn(keys, name, note)),
    notesRead: revision,
  };
}

/** The notes of one request, which have one key and one revision. */
function notesIn(
  keys: EtcdKeys,
  name: string,
  { key, value, modRevision: at }: EtcdKeyValue,
): readonly NoteRow[] {
  const id = keys.noteId(name, key);
  return value
    .toString()
    .split('\n')
    .map((text) => ({ id, text, at }));
}

/** Requests of one transaction have one revision. */
function inOrder(a: EtcdKeyValue, b: EtcdKeyValue): number {
  return a.modRevision - b.modRevision || a.key.compare(b.key);
}
