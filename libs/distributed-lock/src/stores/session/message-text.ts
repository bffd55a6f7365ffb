import type { DocumentRow } from './session-backend.js';

/** First element of each message. A client ignores messages of another format, and its waiters recheck. */
const FORMAT = 1;

/** A document as it is after a write. 0 as version, or as `writtenAt`, stands for the order of the message. */
export function messageText(row: Omit<DocumentRow, 'revision'>): string {
  const { name, version, writtenAt, notesRead, text, notes, nextTicket } = row;
  return JSON.stringify([FORMAT, name, { version, writtenAt, notesRead, text, notes, nextTicket }]);
}

/** A message for many clients at once: the document has changed, and each client reads it. */
export function shortMessageText(name: string): string {
  return JSON.stringify([FORMAT, name]);
}

/** @returns the name alone for a short message, `undefined` for what this release has not written */
export function messageIn(message: string, order: number): DocumentRow | string | undefined {
  let content: unknown;
  try {
    content = JSON.parse(message);
  } catch {
    return undefined;
  }
  if (!Array.isArray(content)) return undefined;
  const [format, name, said] = content as readonly unknown[];
  if (format !== FORMAT || typeof name !== 'string') return undefined;
  if (!said) return name;
  const { version, writtenAt, notesRead, text, notes, nextTicket } = said as DocumentRow;
  return {
    name,
    version: version || order,
    writtenAt: writtenAt || order,
    revision: order,
    notesRead,
    text,
    notes,
    ...(nextTicket !== undefined && { nextTicket }),
  };
}
