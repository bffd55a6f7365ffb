import type { LockDocument, StoredNote } from './document.js';

/** A document as the back end had it at `now`. */
export interface Reading {
  /** Names this state of the document for `swap`; `undefined` for a document that does not exist, which only `take` makes. */
  readonly version: number | undefined;
  /** Grows with each write of this name, also when it is forgotten in between. An older reading is dropped. */
  readonly order: number;
  readonly document: LockDocument;
  readonly notes: readonly StoredNote[];
  /** How much of the notes was read, in the back end's own measure. */
  readonly notesRead: number;
  /** Another client has sent the document with a message: notes that were left since that client read them may be missing. */
  readonly mayLackNotes?: boolean;
  /** The last fencing token of this name. */
  readonly lastToken: number;
  /** The store's time of this reading, in ms. */
  readonly now: number;
  /** A number of the store that only grows: fencing tokens are larger than it. */
  readonly ticks: number;
  /** The ticket of an owner that enters the queue by the next write: larger than `at` of each note that was read. */
  readonly nextTicket: number;
  /** Until when, on the client's clock, its session stays for certain; absent without sessions. */
  readonly validUntil?: number;
}

/** A document, and when this client asked for it and got it, in ms of its own clock. */
export interface TimedReading {
  readonly reading: Reading;
  /** `-Infinity` for a reading that came without a request, because its age is unknown. */
  readonly sentAt: number;
  readonly receivedAt: number;
}
