import { LockStoreError } from '../../port/lock.errors.js';
import type { AcquireRequest, Introduction } from '../../port/lock-store.js';
import type { LeaseClient, Leases } from './leases.js';
import type { LockDocument, Note, Reading } from './document.js';

/**
 * REGISTER: what a back end must be able to do so that `DocumentStore` makes a lock of it. One document per name, changed
 * only by `take` and `swap`, each of which the back end executes atomically.
 *
 * A rejected promise carries a `LockStoreError` with the name as its key. With the reason `unknown` the write may have been
 * executed, or may still be, until `notAfter`.
 */
export interface Register {
  /** As `LockStore.address`. */
  readonly address?: string | undefined;
  /** As `LockStore.attempted`. */
  readonly attempted?: Promise<void> | undefined;
  /** Longest time in ms that one request to the back end takes. A call may need several. */
  readonly commandTimeoutMs: number;
  /**
   * The longest initial lease of a grant that a notification carries, in ms; `Infinity` where no notification is ever lost.
   * 0: its owner must confirm the grant before it believes in it.
   */
  readonly initialLeaseMs: number;
  /** A back end that lost its last writes could give fencing tokens out again: a client asks for larger ones than it has seen. */
  readonly mayLoseWrites: boolean;
  /** Each call costs a round trip: tasks are gathered, and a lane pauses after several lost swaps. */
  readonly isRemote: boolean;

  /** The store listens to the documents that other clients write. Called once, before everything else. */
  listen(listener: RegisterListener): void;
  /**
   * Takes the lock if its document is free: no holders, no queue, no notes. Otherwise leaves the notes beside the document,
   * notifies the clients of its holders, and replies with the document, notes included.
   */
  take(take: Take): Promise<WriteReply>;
  /**
   * Writes `next` if the document still has the version of `expected`; with `isExact` only if there are no notes but those of
   * `expected`. Keeps the notes that `expected` did not have. Replies with the document as it is now, written or not.
   */
  swap(swap: Swap): Promise<WriteReply>;
  read(name: string): Promise<Reading>;
  /** Where no notification comes, the register reads this name from time to time and gives `onReading` what has changed. */
  watch?(name: string, interest: Interest | undefined): void;
  /** As `LockStore.introduce`. */
  introduce(introduction: Introduction): Promise<void>;
  /** As `LockStore.readIntroductions`. */
  readIntroductions(clientIds: readonly string[]): Promise<readonly (string | undefined)[]>;
  /** Names of documents in the order of names. */
  list(request: NameRequest): Promise<NamePage>;
  /** Who ends the leases of the client's owners. Absent where the back end does, when their time is over. */
  leasesOf?(client: LeaseClient): Leases;
  /** True if the back end knows that this client is gone. */
  isGone?(clientId: string): boolean;
  /** @param hasEntries documents name owners of this client that must stay there until their time is over */
  close(hasEntries: boolean): Promise<void>;
}

export interface RegisterListener {
  /** Another client wrote the document or left a note beside it, and this client depends on it. */
  onReading(name: string, reading: Reading): void;
  /**
   * A new connection has told the store's time, in ms, before any request is sent on it. A register that refuses requests after
   * their not-after must tell it, because a not-after counts from the time that was told last.
   */
  onTime(now: number, sentAt: number): void;
  /** Notifications may have been lost, so all waiters must recheck. */
  onGap(): void;
  /** The session of this client is over: what its owners held is lost, and those that wait must enter the queue again. */
  onSessionEnd?(): void;
}

/** How a client depends on a name: its owner holds, or has this place in the queue, 0 for the first. */
export type Interest = 'held' | number;

export interface NameRequest {
  readonly prefix: string;
  /** `NamePage.after` of the page before; `undefined` for the first page, which may begin with the prefix itself. */
  readonly after: string | undefined;
  /** How many names to look at. */
  readonly most: number;
}

/** Names of documents. Free ones may be among them. */
export interface NamePage {
  readonly names: readonly string[];
  /** Where the next page begins; `undefined` when there is none. */
  readonly after: string | undefined;
}

interface Late {
  /**
   * The store's time, in ms, after which the back end refuses the request. The register calls it just before it sends the
   * request. The first call computes the moment, and later calls return the same one.
   */
  readonly notAfter: () => number;
}

export interface Take extends Late {
  readonly name: string;
  readonly request: AcquireRequest;
  /** The fencing tokens of the grant are larger than this. */
  readonly minToken: number;
  /** The notes of the requests that wait, which the register leaves beside a document that is not free. */
  readonly notes: readonly Note[];
}

export interface Swap extends Late {
  readonly name: string;
  readonly expected: Reading;
  readonly next: LockDocument;
  readonly lastToken: number;
  readonly isExact: boolean;
  /** The clients to notify. They get the document. */
  readonly notified: readonly string[];
  /** Nothing is granted or prolonged by this write, so that a crash of the back end may undo it. */
  readonly mayBeForgotten: boolean;
}

export interface WriteReply {
  /**
   * The write was executed: after a take its owner is the only holder. `false`: the document was not as expected, or the
   * request came after its not-after.
   */
  readonly isDone: boolean;
  readonly reading: Reading;
}

/** @param reason `unready` for a write that was not sent; otherwise it may have been executed before the end */
export function sessionEnded(key: string, reason: 'unready' | 'unknown'): LockStoreError {
  const message = `The session of this client ended while it used the lock "${key}". What was held is lost. Try again.`;
  return new LockStoreError(message, key, reason);
}
