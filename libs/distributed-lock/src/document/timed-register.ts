import { type Clock, type ClockReading, readClocks } from '../common/clock.js';
import type { OwnerRequests, RequestsByOwner } from '../connection/certain-releases.js';
import type { ServerClock } from '../connection/server-clock.js';
import type { AcquireRequest, Grant, HolderEntry, Notification } from '../port/lock-store.js';
import { LockStoreError } from '../port/lock.errors.js';
import { isFree, leavesNote, noteOf, type Reading, type TimedReading } from './document.js';
import type { Holder, LockDocument, Note } from './document.js';
import type { ActingClient, KeyState } from './key-state.js';

/**
 * Ends the leases and tickets of this client's owners when their time is over. Needed only for a back end that does not end them
 * by its own clock. Implemented by `SessionLeases` in `session/`.
 */
export interface Leases {
  start(key: string, owner: string, ms: number): void;
  end(owner: string): void;
  /** Prolongs the lease here before the request that prolongs it is sent, so that this client does not end the lease meanwhile. */
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
   * Called with the holders in the newest document of the key. This client may have to end the lease of one of them that it does
   * not know.
   */
  onHolders(key: string, holders: readonly Holder[]): void;
  /** @returns whether documents still name owners of this client, which must stay there until their time is over */
  close(): Promise<boolean>;
}

/** The start of a lease, or its restart by a renewal, maybe with another length. */
export interface LeaseStart extends Pick<Grant, 'token' | 'lastToken'> {
  readonly key: string;
  readonly owner: string;
  readonly leaseMs: number;
  readonly sentAt: number;
}

/** What `Leases` needs from the client that it works for. Implemented by `DocumentStore`. */
export interface LeaseClient {
  readonly clientId: string;
  readonly clock: Clock;
  readonly commandTimeoutMs: number;
  readonly watchdogTimeoutMs: number;
  holds(key: string, owner: string, token: number): boolean;
  end(ending: LeaseEnd): void;
  notify(notification: Notification): void;
}

/** A lease that has run out. The client releases its owner in the document. */
interface LeaseEnd {
  readonly key: string;
  readonly owner: string;
  /** Called again just before the document is changed, because a renewal may have come first. */
  readonly isOver: () => boolean;
  readonly onEnded: () => void;
}

/** A register with a clock: gives each write its not-after, and learns the store's time from each reply. */
export class TimedRegister {
  constructor(private readonly context: TimedContext) {}

  get commandTimeoutMs(): number {
    return this.context.register.commandTimeoutMs;
  }

  get isRemote(): boolean {
    return this.context.register.isRemote;
  }

  /** @param requests the first one takes the lock if the key is free. Otherwise those that are willing to wait leave notes */
  take(name: string, requests: Requests): Promise<TimedReply> {
    const { register, client } = this.context;
    const { minToken } = client;
    const notes = requests.filter(leavesNote).map((each) => noteOf(each, client));
    const [request] = requests;
    return this.write(requests, (notAfter) => register.take({ name, request, notes, minToken, notAfter }));
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
    return this.write(requests, (notAfter) => this.context.register.swap({ ...swap, notAfter }));
  }

  async read(name: string): Promise<TimedReading> {
    const sent = readClocks(this.context.clock);
    return this.timed(await this.context.register.read(name), sent);
  }

  /**
   * Learns the store's time from a new connection. The machine may have been suspended since `sentAt`, and nobody can tell, so
   * the time is marked as unfit for computing until when a grant is valid.
   */
  onTime(now: number, sentAt: number): void {
    const { serverClock, clock } = this.context;
    serverClock.learn(now, { now: sentAt, wallClockOffset: -Infinity }, clock.now());
  }

  /** Adds the times to a reading that came without a request. */
  arrived(reading: Reading): TimedReading {
    return { reading, sentAt: -Infinity, receivedAt: this.context.clock.now() };
  }

  /**
   * Sends a write, and records in `owners` how long the back end may still execute the acquires in it: until the reply, or
   * without one until their not-after.
   */
  private async write(
    requests: readonly AcquireRequest[],
    send: (notAfter: () => number) => Promise<WriteReply>,
  ): Promise<TimedReply> {
    const { clock, serverClock, owners, register } = this.context;
    const sent = readClocks(clock);
    let begun: readonly OwnerRequests[] = [];
    let notAfter: number | undefined;
    const onSending = (): number => {
      const latest = serverClock.earliest(clock.now()) + Math.ceil(register.commandTimeoutMs);
      begun = requests.map(({ owner }) => owners.beginRequest(owner));
      for (const its of begun) its.onAcquireSent(latest);
      return latest;
    };
    let mayComeLate = false;
    try {
      const { isDone, reading } = await send(() => (notAfter ??= onSending()));
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
 * `isDone`: the write was executed. Otherwise another client has written first, and `timed` is the newer document, or the write
 * came after its not-after.
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
  /** The acquires in the batch, whose owners may hold the lock when the state is written. */
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
 * REGISTER: what a back end must be able to do so that `DocumentStore` can make a lock store of it. It keeps one document per
 * name. Only `take` and `swap` change a document, and the back end executes each of them atomically.
 *
 * A rejected promise carries a `LockStoreError` with the name as its key. If its reason is `unknown`, the write may have been
 * executed, or may still be executed until `notAfter`.
 */
export interface Register {
  /** As `LockStore.address`. */
  readonly address?: string | undefined;
  /** As `LockStore.attempted`. */
  readonly attempted?: Promise<void> | undefined;
  /** The longest time in ms that one request to the back end takes. A call may need several requests. */
  readonly commandTimeoutMs: number;
  /**
   * The longest initial lease, in ms, of a grant that its owner learns of by a notification. `Infinity` where no notification is
   * ever lost. With 0 the owner must confirm the grant before it believes in it.
   */
  readonly initialLeaseMs: number;
  /**
   * Whether a crash of the back end may undo its last writes. It could then give out fencing tokens again, so a client asks for
   * larger tokens than it has seen.
   */
  readonly mayLoseWrites: boolean;
  /** Whether a call costs a round trip. If so, a lane gathers tasks into batches, and pauses after several lost swaps. */
  readonly isRemote: boolean;

  /** Called once, before everything else, with the listener for what other clients write. */
  listen(listener: RegisterListener): void;
  /**
   * Takes the lock if its document is free: no holders, no queue, no notes. Otherwise leaves the notes beside the document,
   * notifies the clients of its holders, and replies with the document, notes included.
   */
  take(take: Take): Promise<WriteReply>;
  /**
   * Writes `next` if the document still has the version of `expected`, and keeps notes that `expected` does not have. With
   * `failOnUnreadNotes` it writes only if there are no such notes. Replies with the document as it is now, written or not.
   */
  swap(swap: Swap): Promise<WriteReply>;
  read(name: string): Promise<Reading>;
  /**
   * Says how urgently this client needs changes of the document. Where no notification comes, the register polls it accordingly,
   * and passes what has changed to `onReading`. `undefined`: it need not poll any more.
   */
  watch?(name: string, interest: PollPriority | undefined): void;
  /** As `LockStore.publishHolderEntry`. */
  publishHolderEntry(entry: HolderEntry): Promise<void>;
  /** As `LockStore.readHolderEntries`. */
  readHolderEntries(clientIds: readonly string[]): Promise<readonly (string | undefined)[]>;
  /** Names of documents, in order, one page at a time. */
  list(request: NameRequest): Promise<NamePage>;
  /** Makes the object that ends the leases of the client's owners. Absent where the back end ends them. */
  leasesOf?(client: LeaseClient): Leases;
  /** Whether the back end knows that this client is gone. Absent where it cannot know. */
  isGone?(clientId: string): boolean;
  /** @param hasEntries documents still name owners of this client, which must stay there until their time is over */
  close(hasEntries: boolean): Promise<void>;
}

export interface RegisterListener {
  /** Called when another client wrote the document or left a note beside it, if this client depends on that document. */
  onReading(name: string, reading: Reading): void;
  /**
   * Called with the store's time, in ms, when a connection was opened, before any request is sent on it. Required where the back
   * end refuses requests after their not-after, because that moment is computed from the last time that is known here.
   */
  onTime(now: number, sentAt: number): void;
  /** Called when notifications may have been lost, so that all waiters must recheck. */
  onGap(): void;
  /** Called when the session of this client is over: what its owners held is lost, and those that wait must enter the queue again. */
  onSessionEnd?(): void;
}

/** How urgently a client needs changes of a document: one of its owners holds, or is at this place in the queue, 0 for the first. */
export type PollPriority = 'held' | number;

export interface NameRequest {
  readonly prefix: string;
  /** `NamePage.after` of the page before; `undefined` for the first page, which includes a document whose name is exactly the prefix. */
  readonly after: string | undefined;
  /** How many documents to look at for this page. */
  readonly most: number;
}

/** A page of names of documents. Some of the documents may be free. */
export interface NamePage {
  readonly names: readonly string[];
  /** `NameRequest.after` for the next page; `undefined` when there is none. */
  readonly after: string | undefined;
}

interface Late {
  /**
   * The store's time, in ms, after which the back end must refuse the request. The register calls this just before it sends the
   * request. The first call computes the moment, and later calls return the same one.
   */
  readonly notAfter: () => number;
}

export interface Take extends Late {
  readonly name: string;
  readonly request: AcquireRequest;
  /** The fencing tokens of the grant are larger than this. */
  readonly minToken: number;
  /** The notes of the requests that are willing to wait. The register leaves them beside the document if it is not free. */
  readonly notes: readonly Note[];
}

export interface Swap extends Late {
  readonly name: string;
  readonly expected: Reading;
  readonly next: LockDocument;
  readonly lastToken: number;
  readonly failOnUnreadNotes: boolean;
  /** The clients to notify of the write. Each gets the document. */
  readonly notified: readonly string[];
  /** The write grants and prolongs nothing, so it does no harm if a crash of the back end undoes it. */
  readonly mayBeForgotten: boolean;
}

export interface WriteReply {
  /**
   * Whether the write was executed. After a take the owner is then the only holder. `false`: the document was not as expected, or
   * the request came after its not-after.
   */
  readonly isDone: boolean;
  readonly reading: Reading;
}

/** @param reason `unready` for a write that was not sent; `unknown` for one that may have been executed before the session ended */
export function sessionEndedError(key: string, reason: 'unready' | 'unknown'): LockStoreError {
  const message = `The session of this client ended while it used the lock "${key}". What was held is lost. Try again.`;
  return new LockStoreError(message, key, reason);
}
