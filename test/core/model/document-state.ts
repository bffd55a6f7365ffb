import type {
  LockDocument,
  Reading,
  StoredNote,
} from '../../../libs/distributed-lock/src/stores/core/document.js';

/** The rules of ENGINES.md that a world of one document can show. Each can be switched off. */
const DOCUMENT_RULES = [
  'D1 versions are never used twice',
  'D2 not after',
  'D2 repeated release',
  'D3 notes',
  'D4 exact writes',
  'D5 unread notes are kept',
  'D7 no answer from an old reading',
] as const;

export type DocumentRule = (typeof DOCUMENT_RULES)[number];

/** Times are ms of the only clock, in steps of a tick. */
export const TICK_MS = 1000;
export const LEASE_MS = 3 * TICK_MS;
export const INITIAL_LEASE_MS = TICK_MS;

export interface Row {
  readonly version: number;
  readonly document: LockDocument;
  readonly notes: readonly StoredNote[];
  readonly lastToken: number;
}

export type Task = 'acquire' | 'release';

export interface Client {
  readonly isDead: boolean;
  /** Owners that the client has had, the one of now included. */
  readonly owners: number;
  readonly phase: 'idle' | 'queued' | 'held';
  readonly task: Task | undefined;
  /** A reading that was made for the task. */
  readonly fresh: Reading | undefined;
  /** The newest reading. */
  readonly seen: Reading | undefined;
  readonly validUntil: number;
  /** The not-after of an acquire that was not answered, or -1. */
  readonly lateNotAfter: number;
  /** A task waits for the next tick. */
  readonly rests: boolean;
}

/** A request that is under way for long, or a notification. */
export type Message =
  | { readonly kind: 'request'; readonly client: number; readonly call: Call; readonly notAfter: number }
  | { readonly kind: 'push'; readonly client: number; readonly reading: Reading };

/** One atomic step of the register. */
export type Call =
  | { readonly kind: 'take'; readonly owner: string }
  | { readonly kind: 'read' }
  | {
      readonly kind: 'swap';
      readonly expected: Reading;
      readonly next: LockDocument;
      readonly lastToken: number;
      readonly isExact: boolean;
      readonly notified: readonly string[];
    };

export interface State {
  readonly now: number;
  readonly row: Row | undefined;
  readonly lastVersion: number;
  readonly clients: readonly Client[];
  readonly net: readonly Message[];
  readonly faults: number;
  /** The largest token that was given out. */
  readonly top: number;
  readonly broken: string;
}
