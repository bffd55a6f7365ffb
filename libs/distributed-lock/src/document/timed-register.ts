import { type Clock, type ClockReading, readClocks } from '../common/clock.js';
import type { OwnerRequests, RequestsByOwner } from '../connection/reliable-release.js';
import type { ServerClock } from '../connection/server-clock.js';
import type { AcquireRequest, Grant, HolderEntry, Notification } from '../port/lock-store.js';
import { LockStoreError } from '../port/lock.errors.js';
import { isFree, leavesNote, noteOf, type Reading, type TimedReading } from './document.js';
import type { Holder, LockDocument, Note } from './document.js';
import type { ActingClient, KeyState } from './key-state.js';

/**
 * Ends the leases and tickets of this client's owners when they run out, for a back end that does not do so itself. Only etcd and
 * ZooKeeper need it: `SessionLeases` in `session/`.
 */
export interface Leases {
  start(key: string, owner: string, ms: number): void;
  end(owner: string): void;
  /**
   * Prolongs the lease in this client's memory, before the request that prolongs it is sent. Otherwise this client could end the
   * lease while the request is under way.
   */
  extend(owner: string, ms: number): void;
  /**
   * Called when another client has granted a waiting owner of this client the lock.
   *
   * @returns until when, by our clock, the owner may believe in the grant
   */
  onGranted(holder: Holder, told: { key: string; leaseMs: number; timed: TimedReading }): number;
  /** Called when the back end has granted the owner the lock or renewed its lease. */
  onHeld(lease: LeaseStart): void;
  /**
   * Called with the holders in the newest document of the key. One of them may belong to this client without a lease here, for
   * example because a reply was lost: this client must end it.
   */
  onHolders(key: string, holders: readonly Holder[]): void;
  /** @returns whether documents still name owners of this client whose time has not run out, so that their entries must stay */
  close(): Promise<boolean>;
}

/** The start of a lease, or its restart by a renewal, which may have another length. */
export interface LeaseStart extends Pick<Grant, 'token' | 'lastToken'> {
  readonly key: string;
  readonly owner: string;
  readonly leaseMs: number;
  readonly sentAt: number;
}

/** What `Leases` needs from its client. Implemented by `DocumentStore`. */
export interface LeaseClient {
  readonly clientId: string;
  readonly clock: Clock;
  readonly commandTimeoutMs: number;
  readonly watchdogTimeoutMs: number;
  holds(key: string, owner: string, token: number): boolean;
  end(ending: LeaseEnd): void;
  notify(notification: Notification): void;
}

/** Names an owner whose lease has run out, so that the store removes it from the document. */
interface LeaseEnd {
  readonly key: string;
  readonly owner: string;
  /** Asked again just before the document is changed, because a renewal may have come in between. */
  readonly isOver: () => boolean;
  readonly onEnded: () => void;
}

/** Wraps a register, and adds the clocks: gives each write its deadline (`deadline`), and learns the store's time from each reply. */
export class TimedRegister {
  constructor(private readonly context: TimedContext) {}

  get commandTimeoutMs(): number {
    return this.context.register.commandTimeoutMs;
  }

  get isRemote(): boolean {
    return this.context.register.isRemote;
  }

  /**
   * Sends a `take` for the first request. If the key is not free, the back end stores notes for those requests that are willing to
   * wait.
   */
  take(name: string, requests: Requests): Promise<TimedReply> {
    const { register, client } = this.context;
    const { minToken } = client;
    const notes = requests.filter(leavesNote).map((each) => noteOf(each, client));
    const [request] = requests;
    return this.write(requests, (deadline) => register.take({ name, request, notes, minToken, deadline }));
  }

  /** Writes the changed state, unless another client has written the document since it was read. */
  swap({ name, known, state, requests }: ChangedDocument): Promise<TimedReply> {
    const { document: next, lastToken, failOnUnreadNotes, notified } = state;
    const expected = known.reading;
    const swap = {
      name,
      expected,
      next,
      lastToken,
      failOnUnreadNotes,
      notified,
      mayBeForgotten: isFree(next),
    };
    return this.write(requests, (deadline) => this.context.register.swap({ ...swap, deadline }));
  }

  async read(name: string): Promise<TimedReading> {
    const sent = readClocks(this.context.clock);
    return this.timed(await this.context.register.read(name), sent);
  }

  /**
   * Learns the store's time from a new connection. This machine may have been suspended since `sentAt` without anybody noticing,
   * so that time is never used to compute how long a grant is valid.
   */
  onTime(now: number, sentAt: number): void {
    const { serverClock, clock } = this.context;
    serverClock.learn(now, { now: sentAt, wallClockOffset: -Infinity }, clock.now());
  }

  /** Adds this client's times to a document that arrived without a request. */
  arrived(reading: Reading): TimedReading {
    return { reading, sentAt: -Infinity, receivedAt: this.context.clock.now() };
  }

  /**
   * Sends a write. Records in `owners` that the back end may execute the acquires in it: until the reply, or, if none comes, until
   * their deadline.
   */
  private async write(
    requests: readonly AcquireRequest[],
    send: (deadline: () => number) => Promise<WriteReply>,
  ): Promise<TimedReply> {
    const { clock, serverClock, owners, register } = this.context;
    const sent = readClocks(clock);
    let begun: readonly OwnerRequests[] = [];
    let deadline: number | undefined;
    const onSending = (): number => {
      const latest = serverClock.earliest(clock.now()) + Math.ceil(register.commandTimeoutMs);
      begun = requests.map(({ owner }) => owners.beginRequest(owner));
      for (const its of begun) its.onAcquireSent(latest);
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
      if (!mayComeLate) for (const its of begun) its.onAcquireAnswered();
      if (begun.length > 0) for (const { owner } of requests) owners.endRequest(owner);
    }
  }

  private timed(reading: Reading, sent: ClockReading): TimedReading {
    const { clock, serverClock } = this.context;
    const receivedAt = clock.now();
    serverClock.learn(reading.now, sent, receivedAt);
    return { reading, sentAt: sent.now, receivedAt };
  }
}

export type Requests = readonly [AcquireRequest, ...AcquireRequest[]];

/**
 * `isDone`: the back end has executed the write. Otherwise another client has written first, or the write arrived after its
 * deadline, and `timed` is the document as it is now.
 */
export interface TimedReply {
  readonly isDone: boolean;
  readonly timed: TimedReading;
}

interface ChangedDocument {
  readonly name: string;
  /** The document before the change. */
  readonly known: TimedReading;
  readonly state: KeyState;
  /** The acquires in the batch. Their owners may hold the lock as soon as the state is written. */
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
 * What a back end must be able to do so that `DocumentStore` can make a lock store of it. A register keeps one document for each
 * name. Only `take` and `swap` change a document, and the back end executes each of them atomically (docs/document-stores.md).
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
   * How long an owner may hold a grant that another client wrote before it confirms it, in ms. `Infinity` where notifications are
   * never lost. With 0 an owner must confirm the grant before it relies on it.
   */
  readonly initialLeaseMs: number;
  /**
   * Whether the back end may lose its last writes in a crash, and then give out the same fencing tokens again. Clients of such a
   * back end demand larger tokens than they have seen.
   */
  readonly mayLoseWrites: boolean;
  /** Whether a request is a round trip to a server. A lane then gathers tasks into batches, and pauses after several failed swaps. */
  readonly isRemote: boolean;

  /** Called once, before everything else, with the listener for what other clients write. */
  listen(listener: RegisterListener): void;
  /**
   * Takes the lock if the document has no holders, no queue and no notes. Otherwise stores the notes beside the document, and
   * notifies the clients of its holders. Replies with the document and its notes.
   */
  take(take: Take): Promise<WriteReply>;
  /**
   * Writes `next` if the document still has the version of `expected`. Keeps notes that `expected` does not contain, or, with
   * `failOnUnreadNotes`, writes only if there are none. Replies with the document as it is now, written or not.
   */
  swap(swap: Swap): Promise<WriteReply>;
  read(name: string): Promise<Reading>;
  /**
   * Says how urgently this client needs changes of the document; `undefined` if it no longer does. A register that gets no
   * notifications polls the document accordingly, and passes changes to `onReading`.
   */
  watch?(name: string, interest: PollPriority | undefined): void;
  /** As `LockStore.publishHolderEntry`. */
  publishHolderEntry(entry: HolderEntry): Promise<void>;
  /** As `LockStore.readHolderEntries`. */
  readHolderEntries(clientIds: readonly string[]): Promise<readonly (string | undefined)[]>;
  /** Names of documents in order, one page per call. */
  list(request: NameRequest): Promise<NamePage>;
  /** Makes the object that ends the leases of this client's owners. Absent where the back end itself ends them. */
  leasesOf?(client: LeaseClient): Leases;
  /** Whether the back end knows for certain that this client is gone. Absent where it cannot know. */
  isGone?(clientId: string): boolean;
  /** @param hasEntries documents still name owners of this client, and these entries must stay until their time runs out */
  close(hasEntries: boolean): Promise<void>;
}

export interface RegisterListener {
  /** Called when another client wrote a document that this client depends on, or stored a note beside it. */
  onReading(name: string, reading: Reading): void;
  /**
   * Called with the store's time in ms when a connection was opened, before any request is sent on it. Required where the back end
   * refuses late requests: their deadlines are computed from the last time that is known here.
   */
  onTime(now: number, sentAt: number): void;
  /** Called when notifications may have been lost, so that all waiters must recheck. */
  onGap(): void;
  /** Called when this client's session has ended. Its holders have lost their locks, and its waiters must join their queues again. */
  onSessionEnd?(): void;
}

/**
 * How urgently a client needs changes of a document: one of its owners holds the lock, or waits at this place of the queue (0 is
 * the first).
 */
export type PollPriority = 'held' | number;

export interface NameRequest {
  readonly prefix: string;
  /**
   * Where the last page ended (`NamePage.after`); `undefined` for the first page, which includes a document that is named exactly
   * `prefix`.
   */
  readonly after: string | undefined;
  /** How many documents to look at for this page. */
  readonly most: number;
}

/** A page of document names. Nobody may hold or wait for some of these locks any more. */
export interface NamePage {
  readonly names: readonly string[];
  /** What to pass as `NameRequest.after` for the next page; `undefined` if this is the last one. */
  readonly after: string | undefined;
}

interface Late {
  /**
   * Returns the deadline of the request: the store's time, in ms, after which the back end must refuse it. The register calls this
   * just before it sends the request, and the first call fixes the deadline.
   */
  readonly deadline: () => number;
}

export interface Take extends Late {
  readonly name: string;
  readonly request: AcquireRequest;
  /** The grant's fencing tokens must be larger than this. */
  readonly minToken: number;
  /** Notes for the requests that are willing to wait. The register stores them beside the document if the lock is not free. */
  readonly notes: readonly Note[];
}

export interface Swap extends Late {
  readonly name: string;
  readonly expected: Reading;
  readonly next: LockDocument;
  readonly lastToken: number;
  readonly failOnUnreadNotes: boolean;
  /** Ids of the clients to notify. Each of them gets the written document. */
  readonly notified: readonly string[];
  /** The write grants and prolongs no lock, so it does no harm if a crash of the back end undoes it. */
  readonly mayBeForgotten: boolean;
}

export interface WriteReply {
  /**
   * Whether the back end has executed the write. After a take, the owner is then the only holder. `false`: another client wrote
   * the document first, or the request came after its deadline.
   */
  readonly isDone: boolean;
  readonly reading: Reading;
}

/** @param reason `unready` if the write was not sent; `unknown` if the back end may have executed it before the session ended */
export function sessionEndedError(key: string, reason: 'unready' | 'unknown'): LockStoreError {
  const message = `The session of this client ended while it used the lock "${key}". What was held is lost. Try again.`;
  return new LockStoreError(message, key, reason);
}
