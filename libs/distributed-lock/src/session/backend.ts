import type { NamePage, NameRequest } from '../document/timed-register.js';

/**
 * The abilities of a coordination service of which `SessionRegister` makes a register: texts that change in one
 * atomic write, under the session of their writer.
 *
 * A rejected promise carries a `LockStoreError` with the name as its key: `unready` for a write that is certainly not
 * executed, `unknown` for one that may have been. After an `unknown` write nothing that is sent later is executed before it.
 * Each request to the service settles within `commandTimeoutMs`. A call may need several.
 */
export interface SessionBackend {
  readonly address?: string;
  readonly commandTimeoutMs: number;
  /** How long after a reading, in ms, no later document of the name gets its version; default: for ever. */
  readonly believedMs?: number;

  /** Called once, before everything else. */
  listen(listener: BackendListener): void;
  /**
   * The session for the next writes, opened where there is none.
   *
   * @throws LockStoreError `unready` when none can be opened in time
   */
  session(name: string | undefined): Promise<Session>;
  /**
   * Writes the text if the document does not exist, or has the version of the free one that was seen. Otherwise leaves the
   * notes beside it, and replies with the document, notes included.
   */
  take(write: SessionTake): Promise<SessionWriteReply>;
  /**
   * Writes the text if the document still has the version, and deletes the notes that were merged. With `failOnUnreadNotes` only if
   * there are no notes but those that were read. Replies with the document as it is now, written or not.
   */
  swap(write: SessionSwap): Promise<SessionWriteReply>;
  /** Reads the newest document. The reading of a server that lags behind is not enough. */
  read(name: string): Promise<DocumentRow>;
  endedAmong(sessions: readonly string[]): Promise<readonly string[]>;
  /** The least id of all sessions. */
  firstSession(): Promise<string | undefined>;
  /** Deletes the document if it still has this version, and no notes beside it. */
  remove(row: DocumentRow): Promise<void>;
  /** Sends a message to clients, as `swap` does, in the background. */
  tell(messages: Messages): void;
  /** As `Register.publishHolderEntry`, but until the session ends. Nothing depends on the order of two such writes. */
  publishHolderEntry(entry: SessionHolderEntry): Promise<void>;
  /** As `Register.readHolderEntries`. */
  readHolderEntries(clientIds: readonly string[]): Promise<readonly (string | undefined)[]>;
  /** As `Register.list`. */
  list(request: NameRequest): Promise<NamePage>;
  /** @param keepSession what this client has written must stay as long as it can */
  close(keepSession: boolean): Promise<void>;
}

export interface BackendListener {
  /** A message for this client has arrived. `order` is the order of the write that sent it. */
  onMessage(text: string, order: number): void;
  /** Messages may have been lost. */
  onGap(): void;
  /** The session is over, and what was held under it is lost. Its `validUntil` is `-Infinity` by now. */
  onSessionEnd(session: Session): void;
}

/** One session of this client. What it has written stays until the session ends. */
export interface Session {
  /** Never used again. */
  readonly id: string;
  /**
   * Until when, on our clock, the back end keeps the session for certain: counted by `leaseValidity` from the sending of the
   * last keep-alive that was answered, so that the margin for drift is taken off. `-Infinity` once the session is over.
   */
  readonly validUntil: number;
}

export interface SessionTake {
  readonly name: string;
  /** The document as this client has seen it last. The write replaces a free one of this version. */
  readonly seen: SeenDocument | undefined;
  readonly text: string;
  /** Texts of notes, without line breaks. */
  readonly notes: readonly string[];
  /** The text names this session, so the write is refused as `unready` when it is over. */
  readonly session: Session;
}

export interface SessionSwap {
  readonly name: string;
  /** The version of the row that was read. `undefined`: the document did not exist, and must not exist yet. */
  readonly version: number | undefined;
  readonly text: string;
  /** The write leaves the lock free, and later fencing tokens are larger even without the document. */
  readonly mayDelete: boolean;
  readonly session: Session;
  readonly failOnUnreadNotes: boolean;
  readonly notesRead: number;
  /** The next ticket of the row that was read. */
  readonly nextTicket: number;
  /** Ids of notes to delete, because the text has them now. */
  readonly mergedNotes: readonly string[];
  readonly messages: Messages;
}

export interface SessionHolderEntry {
  readonly clientId: string;
  /** `undefined`: the client has none any more. */
  readonly text: string | undefined;
  readonly session: Session;
}

export interface Messages {
  readonly name: string;
  readonly clients: readonly string[];
  /**
   * The text has no line breaks.
   *
   * @param version version of the document after this write; 0 where it is the order of the message
   * @param writtenAt revision of this write; 0 where it is the order of the message
   */
  readonly text: (version: number, writtenAt: number) => string;
}

/** One document as the back end has it. */
export interface DocumentRow {
  readonly name: string;
  /** Not used again for a name within `believedMs`. `undefined`: the document does not exist. */
  readonly version: number | undefined;
  readonly text: string | null;
  /** The revision of the write that wrote the text; 0 where it does not exist. */
  readonly writtenAt: number;
  /** The revision of the write that made the document; left out where this client has written it, or a message brings it. */
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
  /** The lock had no holder, no waiter and no note. */
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
