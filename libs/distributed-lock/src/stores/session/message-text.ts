import type { NoteRow, Row } from './session-backend.js';

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
}: Omit<Row, 'revision'>): string {
  const message: MessageText = [FORMAT, name, version, writtenAt, notesRead, text, notes, nextTicket];
  return JSON.stringify(message);
}

/** @returns `undefined` for what this release has not written */
export function messageIn(message: string, order: number): Row | undefined {
  let content: MessageText;
  try {
    content = JSON.parse(message) as MessageText;
  } catch {
    return undefined;
  }
  if (!Array.isArray(content) || content[0] !== FORMAT) return undefined;
  const [, name, version, writtenAt, notesRead, text, notes, nextTicket] = content;
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
