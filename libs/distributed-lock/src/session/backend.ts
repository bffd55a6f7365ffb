import type { NamePage, NameRequest } from '../document/timed-register.js';

/**
 * The operations that etcd and ZooKeeper must have so that `SessionRegister` can make a register of them
 * (docs/document-stores.md#sessions-etcd-and-zookeeper).
 *
 * A rejected promise carries a `LockStoreError` with the name as its key: `unready` for a write that is certainly not executed,
 * `unknown` for one that may have been, or may still be: but then the service executes it before anything that this client sends
 * later. Each request to the service settles within `commandTimeoutMs`. A call may need several requests.
 */
export interface SessionBackend {
  readonly address?: string;
  readonly commandTimeoutMs: number;
  /**
   * How long, in ms, this client may rely on a version that it has read; default: for ever. ZooKeeper counts the versions of a
   * document that was deleted and created anew from the start, so after this time another document may have the same version.
   */
  readonly believedMs?: number;

  /** Called once, before any other method. */
  listen(listener: BackendListener): void;
  /** Opens a session if there is none. @throws LockStoreError `unready` when none can be opened in time */
  session(name: string | undefined): Promise<Session>;
  /**
   * Writes the text if the document does not exist, or if this client last saw it free (`seen`) and it still has that version.
   * Otherwise stores the notes beside the document.
   */
  take(write: SessionTake): Promise<SessionWriteReply>;
  /**
   * Writes the text if the document still has this version, and deletes the notes that were merged into the text. With
   * `failOnUnreadNotes` it writes only if there are no other notes.
   */
  swap(write: SessionSwap): Promise<SessionWriteReply>;
  /** Reads the newest document. A server that lags behind the others must not answer from its own copy. */
  read(name: string): Promise<StoredDocument>;
  endedAmong(sessions: readonly string[]): Promise<readonly string[]>;
  /** The smallest id of all sessions that exist now. */
  firstSession(): Promise<string | undefined>;
  /** Deletes the document if it still has this version and no notes lie beside it. */
  remove(stored: StoredDocument): Promise<void>;
  /** Sends messages to clients in the background, without writing a document. */
  sendMessages(messages: Messages): void;
  /** As `Register.publishHolderEntry`, but the entry stays until the session ends. Writes that overlap may be executed in any order. */
  publishHolderEntry(entry: SessionHolderEntry): Promise<void>;
  /** As `Register.readHolderEntries`. */
  readHolderEntries(clientIds: readonly string[]): Promise<readonly (string | undefined)[]>;
  /** As `Register.list`. */
  list(request: NameRequest): Promise<NamePage>;
  /** @param keepSession do not end the session: what this client has written must stay until the session times out */
  close(keepSession: boolean): Promise<void>;
}

export interface BackendListener {
  /** Called with a message for this client. `order` is the revision (or version) of the write that the message was sent with. */
  onMessage(text: string, order: number): void;
  /** Called when messages may have been lost. */
  onGap(): void;
  /** Called when the session has ended. What was held under it is lost. Its `validUntil` is `-Infinity` by then. */
  onSessionEnd(session: Session): void;
}

/** A session of this client. What the client writes under it counts until the session ends. */
export interface Session {
  readonly id: string;
  /**
   * Until when, by our clock, the service certainly keeps the session. Counts from when this client sent the last keep-alive that
   * was answered, less the margin of `leaseValidity` for clock drift. `-Infinity` as soon as the session has ended.
   */
  readonly validUntil: number;
}

export interface SessionTake {
  readonly name: string;
  /** The document as this client saw it last. */
  readonly seen:
    | {
        readonly version: number | undefined;
        /** Nobody held the lock or waited for it, and there was no note. */
        readonly isFree: boolean;
        readonly notesRead: number;
        readonly nextTicket: number | undefined;
      }
    | undefined;
  readonly text: string;
  /** To be stored if the lock is not free. They contain no line breaks. */
  readonly notes: readonly string[];
  /** The session that the text names. If it has ended, the service must refuse the write, with the reason `unready`. */
  readonly session: Session;
}

export interface SessionSwap {
  readonly name: string;
  /** The version of the document that was read; `undefined` if there was none. The write fails if it has changed. */
  readonly version: number | undefined;
  readonly text: string;
  /** The write may delete the document instead: the lock is free, and new fencing tokens will be larger even without the document. */
  readonly mayDelete: boolean;
  readonly session: Session;
  readonly failOnUnreadNotes: boolean;
  readonly notesRead: number;
  /** `nextTicket` of the document that was read. */
  readonly nextTicket: number;
  /** Ids of the notes that the new text contains, and that the write deletes. */
  readonly mergedNotes: readonly string[];
  readonly messages: Messages;
}

export interface SessionHolderEntry {
  readonly clientId: string;
  /** `undefined` removes the client's entry. */
  readonly text: string | undefined;
  readonly session: Session;
}

export interface Messages {
  readonly name: string;
  readonly clients: readonly string[];
  /**
   * Makes the text of the message, without line breaks, from the version and the revision of the write. A back end passes 0 for
   * a number that the receiver gets as the `order` of the message.
   */
  readonly text: (version: number, writtenAt: number) => string;
}

/** A document and its notes, as the back end has them. */
export interface StoredDocument {
  readonly name: string;
  /** `undefined` if there is no document. */
  readonly version: number | undefined;
  readonly text: string | null;
  /** The revision of the write that wrote the text; 0 if the document does not exist. */
  readonly writtenAt: number;
  /** The revision of the write that created the document. Absent in a message, and in the reply to this client's own write. */
  readonly createdAt?: number;
  /** The revision of the back end when the document was read, or a later one. */
  readonly revision: number;
  /** The notes in the order in which they were stored. */
  readonly notes: readonly {
    readonly id: string;
    readonly text: string;
    /** The revision of the note, or another number that grows from note to note of one name. */
    readonly at: number;
  }[];
  readonly notesRead: number;
  /** A ticket larger than those of these notes, and smaller than those of later ones; default: `revision + 1`. */
  readonly nextTicket?: number;
}

export interface SessionWriteReply {
  readonly isDone: boolean;
  readonly row: StoredDocument;
}
