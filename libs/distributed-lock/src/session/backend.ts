import type { NamePage, NameRequest } from '../document/timed-register.js';

/**
 * What a coordination service, etcd or ZooKeeper, must be able to do so that `SessionRegister` can make a register of it: keep
 * texts under the session of the client that writes them, and change a text in one atomic write.
 *
 * A rejected promise carries a `LockStoreError` with the name as its key: `unready` for a write that is certainly not executed,
 * `unknown` for one that may have been. After an `unknown` write nothing that is sent later is executed before it. Each request
 * to the service settles within `commandTimeoutMs`. A call may need several requests.
 */
export interface SessionBackend {
  readonly address?: string;
  readonly commandTimeoutMs: number;
  /** How long after a reading, in ms, no later document of the same name can have its version; default: for ever. */
  readonly believedMs?: number;

  /** Called once, before everything else. */
  listen(listener: BackendListener): void;
  /**
   * Returns the session for the next writes. Opens one if there is none.
   *
   * @throws LockStoreError `unready` when none can be opened in time
   */
  session(name: string | undefined): Promise<Session>;
  /**
   * Writes the text if the document does not exist, or if it was free when this client saw it and still has that version.
   * Otherwise leaves the notes beside the document, and replies with it, notes included.
   */
  take(write: SessionTake): Promise<SessionWriteReply>;
  /**
   * Writes the text if the document still has the version, and deletes the notes that were merged. With `failOnUnreadNotes` it
   * writes only if there are no notes but those that were read. Replies with the document as it is now, written or not.
   */
  swap(write: SessionSwap): Promise<SessionWriteReply>;
  /** Reads the newest document. A server that lags behind must not answer this from its own state. */
  read(name: string): Promise<DocumentRow>;
  endedAmong(sessions: readonly string[]): Promise<readonly string[]>;
  /** The least id of all sessions that exist now. The client with that session sweeps. */
  firstSession(): Promise<string | undefined>;
  /** Deletes the document if it still has this version and no notes lie beside it. */
  remove(row: DocumentRow): Promise<void>;
  /** Sends a message to clients, as `swap` does, but in the background and without a write of a document. */
  tell(messages: Messages): void;
  /** As `Register.publishHolderEntry`, but the entry stays until the session ends. Two such writes may be executed in any order. */
  publishHolderEntry(entry: SessionHolderEntry): Promise<void>;
  /** As `Register.readHolderEntries`. */
  readHolderEntries(clientIds: readonly string[]): Promise<readonly (string | undefined)[]>;
  /** As `Register.list`. */
  list(request: NameRequest): Promise<NamePage>;
  /** @param keepSession leave the session open, because what this client has written must stay as long as it can */
  close(keepSession: boolean): Promise<void>;
}

export interface BackendListener {
  /** Called with a message for this client. `order` is the order of the write that sent it. */
  onMessage(text: string, order: number): void;
  /** Called when messages may have been lost. */
  onGap(): void;
  /** Called when the session is over, and what was held under it is lost. By then `validUntil` of the session is `-Infinity`. */
  onSessionEnd(session: Session): void;
}

/** A session of this client in the coordination service. What the client writes under it counts until the session ends. */
export interface Session {
  /** The service never uses the id again. */
  readonly id: string;
  /**
   * Until when, by our clock, the back end certainly keeps the session. It counts from the sending of the last keep-alive that
   * was answered, and `leaseValidity` has taken the margin for drift off. `-Infinity` as soon as the session is over.
   */
  readonly validUntil: number;
}

export interface SessionTake {
  readonly name: string;
  /** The document as this client saw it last. If it was free then and still has this version, the write replaces it. */
  readonly seen: SeenDocument | undefined;
  readonly text: string;
  /** Texts of notes, without line breaks. */
  readonly notes: readonly string[];
  /** The session that the text names. If it is over, the write is refused as `unready`. */
  readonly session: Session;
}

export interface SessionSwap {
  readonly name: string;
  /** The version of the row that was read. `undefined`: there was no document, and there must be none now. */
  readonly version: number | undefined;
  readonly text: string;
  /**
   * The write may delete the document in place of writing it: the lock is free, and later fencing tokens are larger even without
   * the document.
   */
  readonly mayDelete: boolean;
  readonly session: Session;
  readonly failOnUnreadNotes: boolean;
  readonly notesRead: number;
  /** `nextTicket` of the row that was read. */
  readonly nextTicket: number;
  /** Ids of the notes that the text contains now, so the write deletes them. */
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
   * Makes the text of the message, without line breaks.
   *
   * @param version the version of the document after this write; 0 if the order of the message is that version
   * @param writtenAt the revision of this write; 0 if the order of the message is that revision
   */
  readonly text: (version: number, writtenAt: number) => string;
}

/** A document and its notes, as the back end has them. */
export interface DocumentRow {
  readonly name: string;
  /** `undefined` if the document does not exist. No later document of the name gets the same version within `believedMs`. */
  readonly version: number | undefined;
  readonly text: string | null;
  /** The revision of the write that wrote the text; 0 if the document does not exist. */
  readonly writtenAt: number;
  /** The revision of the write that created the document. Absent in the reply to a write of this client, and in a message. */
  readonly createdAt?: number;
  /** The revision of the back end when the row was read, or a later one. */
  readonly revision: number;
  /** In order of their revisions. */
  readonly notes: readonly NoteRow[];
  readonly notesRead: number;
  /** A ticket larger than those of the notes that were read, and smaller than those of later notes; default: `revision + 1`. */
  readonly nextTicket?: number;
}

export interface SeenDocument {
  readonly version: number | undefined;
  /** Whether the lock had no holder, no waiter and no note. */
  readonly isFree: boolean;
  readonly notesRead: number;
  readonly nextTicket: number | undefined;
}

export interface NoteRow {
  readonly id: string;
  readonly text: string;
  /** The revision of the note, or another number that grows from note to note of one name. */
  readonly at: number;
}

export interface SessionWriteReply {
  readonly isDone: boolean;
  readonly row: DocumentRow;
}
