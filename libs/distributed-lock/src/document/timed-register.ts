import { type Clock, type ClockReading, readClocks } from '../common/clock.js';
import type { OwnerRequests, RequestsByOwner } from '../connection/owner-requests.js';
import type { ServerClock } from '../connection/server-clock.js';
import type { AcquireRequest, HolderEntry } from '../port/lock-store.js';
import { LockStoreError } from '../port/lock.errors.js';
import { isFree, leavesNote, noteOf, type Reading, type TimedReading } from './document.js';
import type { LockDocument, Note } from './document.js';
import type { ActingClient, KeyState } from './key-state.js';

/** Adds the clocks to a register: gives each write its deadline, and learns the store's time from each reply. */
export class TimedRegister {
  constructor(private readonly context: TimedContext) {}

  get commandTimeoutMs(): number {
    return this.context.register.commandTimeoutMs;
  }

  get isRemote(): boolean {
    return this.context.register.isRemote;
  }

  /** Sends a `take` for the first request, and notes for those of `leavesNote`. */
  take(name: string, requests: readonly AcquireRequest[], lostSwaps: number): Promise<TimedReply> {
    const { register, client } = this.context;
    const { minToken } = client;
    const notes = requests.filter((each) => leavesNote(each, lostSwaps)).map((each) => noteOf(each, client));
    const [request] = requests as readonly [AcquireRequest];
    return this.write(requests, (deadline) => register.take({ name, request, notes, minToken, deadline }));
  }

  swap({ name, base, state, requests }: ChangedDocument): Promise<TimedReply> {
    const { document: next, lastToken, failOnUnreadNotes, notified } = state;
    const swap = { name, expected: base.reading, next, lastToken, failOnUnreadNotes, notified };
    return this.write(requests, (deadline) =>
      this.context.register.swap({ ...swap, mayBeForgotten: isFree(next), deadline }),
    );
  }

  async read(name: string): Promise<TimedReading> {
    const sent = readClocks(this.context.clock);
    return this.timed(await this.context.register.read(name), sent);
  }

  /**
   * Learns the store's time from a new connection, but not for the validity of grants: this machine may have been suspended since
   * `sentAt` without anybody noticing.
   */
  onTime(now: number, sentAt: number): void {
    const { serverClock, clock } = this.context;
    serverClock.learn(now, { now: sentAt, wallClockOffset: -Infinity }, clock.now());
  }

  /** Adds this client's times to a document that arrived without a request. */
  arrived(reading: Reading): TimedReading {
    return { reading, sentAt: -Infinity, receivedAt: this.context.clock.now() };
  }

  /** Sends a write, and records in `owners` until when the back end may execute the acquires in it: its reply, or else its deadline. */
  private async write(
    requests: readonly AcquireRequest[],
    send: (deadline: () => number) => Promise<WriteReply>,
  ): Promise<TimedReply> {
    const { clock, serverClock, owners, register } = this.context;
    const sent = readClocks(clock);
    let pending: readonly OwnerRequests[] = [];
    let deadline: number | undefined;
    const onSending = (): number => {
      const latest = serverClock.earliest(clock.now()) + Math.ceil(register.commandTimeoutMs);
      pending = requests.map(({ owner }) => owners.beginRequest(owner));
      for (const each of pending) each.onAcquireSent(latest);
      return latest;
    };
    let mayComeLate = false;
    try {
      const { isDone, reading } = await send(() => (deadline ??= onSending()));
      return { isDone, timed: this.timed(reading, sent) };
    } catch (error) {
      mayComeLate = error instanceof LockStoreError && error.reason === 'unknown';
      throw error;
    } finally {
      if (!mayComeLate) for (const each of pending) each.onAcquireAnswered();
      if (pending.length > 0) for (const { owner } of requests) owners.endRequest(owner);
    }
  }

  private timed(reading: Reading, sent: ClockReading): TimedReading {
    const { clock, serverClock } = this.context;
    const receivedAt = clock.now();
    serverClock.learn(reading.now, sent, receivedAt);
    return { reading, sentAt: sent.now, receivedAt };
  }
}

/** A `WriteReply` with this client's times. */
export interface TimedReply {
  readonly isDone: boolean;
  readonly timed: TimedReading;
}

interface ChangedDocument {
  readonly name: string;
  readonly base: TimedReading;
  readonly state: KeyState;
  /** The acquires in the batch. */
  readonly requests: readonly AcquireRequest[];
}

interface TimedContext {
  readonly register: Register;
  readonly client: ActingClient;
  readonly owners: RequestsByOwner;
  readonly serverClock: ServerClock;
  readonly clock: Clock;
}

/**
 * The operations that a back end must have so that `DocumentStore` can make a lock store of it: keep one document for each name, which
 * only `take` and `swap` change, each of them atomically (docs/document-stores.md).
 *
 * A rejected promise carries a `LockStoreError` with the name as its key. If its reason is `unknown`, the back end may have
 * executed the write, or may still do so until `deadline`.
 */
export interface Register {
  /** As `LockStore.address`. */
  readonly address?: string | undefined;
  /** As `LockStore.attempted`. */
  readonly attempted?: Promise<void> | undefined;
  /** How long one request to the back end may take, in ms. A call may need several requests. */
  readonly commandTimeoutMs: number;
  /**
   * How long an owner may hold a grant of another client unconfirmed, in ms. `Infinity` where notifications are never lost; 0 where
   * an owner must confirm a grant before it relies on it.
   */
  readonly initialLeaseMs: number;
  /** Whether the back end may lose its last writes in a crash. Its clients then demand larger tokens than they have seen. */
  readonly mayLoseWrites: boolean;
  /** Whether a request is a round trip to a server. */
  readonly isRemote: boolean;

  /** Called once, before everything else, with the listener for what other clients write. */
  listen(listener: RegisterListener): void;
  /**
   * Grants the lock if the document has no holders, no queue and no notes. Otherwise stores the notes of the request beside the
   * document, and notifies the clients of its holders.
   */
  take(take: Take): Promise<WriteReply>;
  /**
   * Writes `next` if the document still has the version of `expected`. Keeps notes that `expected` does not contain, or, with
   * `failOnUnreadNotes`, writes only if there are none.
   */
  swap(swap: Swap): Promise<WriteReply>;
  read(name: string): Promise<Reading>;
  /** Says how urgently this client needs changes of the document. A register without notifications polls it accordingly. */
  watch?(name: string, priority: PollPriority | undefined): void;
  /** As `LockStore.publishHolderEntry`. */
  publishHolderEntry(entry: HolderEntry): Promise<void>;
  /** As `LockStore.readHolderEntries`. */
  readHolderEntries(clientIds: readonly string[]): Promise<readonly (string | undefined)[]>;
  /** Names of documents in order, one page per call. */
  list(request: NameRequest): Promise<NamePage>;
  /**
   * Returns until when, by our clock, this client's session certainly lasts. Absent where no session, but the back end's own clock
   * ends leases.
   */
  readonly sessionUntil?: () => number;
  /** Whether this client is certainly gone. Absent where the back end cannot know. */
  isGone?(clientId: string): boolean;
  /** @param hasEntries documents still name owners of this client. These entries must stay until their time runs out */
  close(hasEntries: boolean): Promise<void>;
}

export interface RegisterListener {
  /** Called when another client wrote a document that this client depends on, or stored a note beside it. */
  onReading(name: string, reading: Reading): void;
  /**
   * Called with the store's time in ms when a connection was opened, before any request is sent on it, if the back end refuses
   * late requests: their deadlines are computed from this time.
   */
  onTime(now: number, sentAt: number): void;
  /** Called when notifications may have been lost, so that all waiters must recheck. */
  onGap(): void;
  /** Called when this client's session has ended, and with it everything the client held. */
  onSessionEnd?(): void;
}

/** How urgently a client needs changes of a document: its owner holds the lock, or waits at this place of the queue. */
export type PollPriority = 'held' | number;

export interface NameRequest {
  readonly prefix: string;
  /** `NamePage.after` of the last page; `undefined` for the first page, which includes a document that is named exactly `prefix`. */
  readonly after: string | undefined;
  /** How many documents to look at for this page. */
  readonly most: number;
}

export interface NamePage {
  readonly names: readonly string[];
  /** `NameRequest.after` for the next page; `undefined` if this is the last one. */
  readonly after: string | undefined;
}

interface Late {
  /**
   * Returns the store's time, in ms, after which the back end must refuse the request. Called just before the request is sent. The
   * first call fixes the deadline.
   */
  readonly deadline: () => number;
}

export interface Take extends Late {
  readonly name: string;
  readonly request: AcquireRequest;
  /** The grant's fencing tokens must be larger than this. */
  readonly minToken: number;
  /** To be stored beside the document if the lock is not free. */
  readonly notes: readonly Note[];
}

export interface Swap extends Late {
  readonly name: string;
  readonly expected: Reading;
  readonly next: LockDocument;
  readonly lastToken: number;
  readonly failOnUnreadNotes: boolean;
  /** Ids of the clients that get the written document. */
  readonly notified: readonly string[];
  /** The write grants and prolongs no lock, so it does no harm if a crash of the back end undoes it. */
  readonly mayBeForgotten: boolean;
}

export interface WriteReply {
  /** Whether the write was executed. `false`: another client wrote the document first, or the request came after its deadline. */
  readonly isDone: boolean;
  /** The document as it is now. */
  readonly reading: Reading;
}

/** @param reason `unready` if the write was not sent; `unknown` if the back end may have executed it before the session ended */
export function sessionEndedError(key: string, reason: 'unready' | 'unknown'): LockStoreError {
  const message = `The session of this client ended while it used the lock "${key}". What was held is lost. Try again.`;
  return new LockStoreError(message, key, reason);
}
