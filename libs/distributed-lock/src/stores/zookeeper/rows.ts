import type { NoteRow, DocumentRow } from '../session/session-backend.js';
import { CODE } from './client/codes.js';
import { getChildren, getData, type Acl, type Children, type Node, type Request } from './client/requests.js';
import type { ZookeeperSession } from './client/session.js';
import { noteNamed, type LockPaths } from './lock-path.js';
import { FIRST_VERSION } from './znode-version.js';
import { isCode } from './zookeeper.errors.js';

/** The session by which a client reads and writes its znodes, and their paths. */
export interface Znodes {
  readonly session: ZookeeperSession;
  readonly paths: LockPaths;
  readonly acl: Acl;
}

export type Notes = Pick<DocumentRow, 'notes' | 'notesRead' | 'nextTicket'>;

/** The client repeats a reading that another client's write may have torn, at most this often. */
const MAX_READINGS = 10;

/** Reads a document and its notes, as the server that this session is connected to has them. */
export async function readRow({ session, paths }: Znodes, name: string): Promise<DocumentRow> {
  let before: Node | undefined;
  for (let readings = 1; ; readings++) {
    const [children, node] = await Promise.all([
      found(session, getChildren(paths.queueOf(name))),
      found(session, getData(paths.documentOf(name))),
    ]);
    // A document that was written after the last note was left or deleted may have merged the notes that were read.
    const mayBeTorn = node && children && children.names.length > 0 && node.stat.mzxid > children.stat.pzxid;
    const isSame = before !== undefined && before.stat.mzxid === node?.stat.mzxid;
    if (!mayBeTorn || isSame || readings === MAX_READINGS) {
      const revision = session.lastZxid;
      return {
        name,
        version: node && node.stat.version + FIRST_VERSION,
        text: node?.data ?? null,
        writtenAt: node?.stat.mzxid ?? 0,
        ...(node && { createdAt: node.stat.czxid }),
        revision,
        ...notesIn(children, revision),
      };
    }
    before = node;
  }
}

export async function readNotes({ session, paths }: Znodes, name: string): Promise<Notes> {
  const children = await found(session, getChildren(paths.queueOf(name)));
  return notesIn(children, session.lastZxid);
}

function notesIn(children: Children | undefined, revision: number): Notes {
  if (!children) return { notes: [], notesRead: 0, nextTicket: revision + 1 };
  const { names, stat } = children;
  // A parent that is made again numbers its notes from a larger number on.
  const numberOf = (creations: number): number => stat.czxid + 1 + creations;
  const notes: NoteRow[] = [];
  for (const id of names) {
    const note = noteNamed(id);
    if (note) notes.push({ id, text: note.text, at: numberOf(note.number) });
  }
  notes.sort((a, b) => a.at - b.at);
  return { notes, notesRead: stat.version + FIRST_VERSION, nextTicket: numberOf(stat.creations) };
}

/** @returns `undefined` when the znode does not exist */
export async function found<Content>(
  session: ZookeeperSession,
  request: Request<Content>,
): Promise<Content | undefined> {
  try {
    return (await session.send(request)).content;
  } catch (error) {
    if (isCode(error, CODE.noNode)) return undefined;
    throw error;
  }
}
