import type { NoteRow, DocumentRow } from './session-backend.js';

/** First element of each message. A client ignores messages of another format: its waiters recheck. */
const FORMAT = 1;

type MessageText = readonly [
  format: number,
  name: string,
  /** 0: the order of the message. */
  version: number,
  writtenAt: number,
  notesRead: number,
  text: string | null,
  notes: readonly NoteRow[],
  /** 0: left out. */
  nextTicket: number,
];

/** A document as it is after a write. 0 as version, or as `writtenAt`, stands for the order of the message. */
export function messageText({
  name,
  version = 0,
  writtenAt,
  notesRead,
  text,
  notes,
  nextTicket = 0,
}: Omit<DocumentRow, 'revision'>): string {
  const message: MessageText = [FORMAT, name, version, writtenAt, notesRead, text, notes, nextTicket];
  return JSON.stringify(message);
}

/** For many clients at once: the document has changed, and each of them reads it. */
export function shortMessageText(name: string): string {
  return JSON.stringify([FORMAT, name]);
}

/** @returns the name alone for a short message, `undefined` for what this release has not written */
export function messageIn(message: string, order: number): DocumentRow | string | undefined {
  let content: MessageText | readonly [format: number, name: string];
  try {
    content = JSON.parse(message) as typeof content;
  } catch {
    return undefined;
  }
  if (!Array.isArray(content) || content[0] !== FORMAT || typeof content[1] !== 'string') return undefined;
  if (content.length === 2) return content[1];
  const [, name, version, writtenAt, notesRead, text, notes, nextTicket] = content as unknown as MessageText;
  return {
    name,
    version: version || order,
    writtenAt: writtenAt || order,
    revision: order,
    notesRead,
    text,
    notes,
    ...(nextTicket > 0 && { nextTicket }),
  };
}
