import { type Clock, type ClockReading, readClocks } from '../common/clock.js';
import type { OwnerRequests, RequestsByOwner } from '../connection/certain-releases.js';
import type { ServerClock } from '../connection/server-clock.js';
import type { AcquireRequest, Grant, HolderEntry, Notification } from '../port/lock-store.js';
import { LockStoreError } from '../port/lock.errors.js';
import { isFree, leavesNote, noteOf, type Reading, type TimedReading } from './document.js';
import type { Holder, LockDocument, Note } from './document.js';
import type { ActingClient, KeyState } from './key-state.js';

/**
 * Ends the leases and tickets of this client's owners when their time is over. Only a back end that ends none by its own clock
 * needs this: `SessionLeases` in session.
 */
export interface Leases {
  start(key: string, owner: string, ms: number): void;
  end(owner: string): void;
  /** A request that prolongs the lease is about to be sent, so that it must not end meanwhile. */
  extend(owner: string, ms: number): void;
  /** A waiting owner of this client was granted the lock. @returns until when the owner may believe in the grant */
  onGranted(holder: Holder, told: { key: string; leaseMs: number; timed: TimedReading }): number;
  /** The owner was granted the lock, or its renewal was answered. */
  onHeld(lease: LeaseStart): void;
  /** The newest document of the key names these holders. */
  onHolders(key: string, holders: readonly Holder[]): void;
  /** @returns whether documents name owners of this client that must stay there until their time is over */
  close(): Promise<boolean>;
}

/** A lease that begins, or begins again, maybe with another length. */
export interface LeaseStart extends Pick<Grant, 'token' | 'lastToken'> {
  readonly key: string;
  readonly owner: string;
  readonly leaseMs: number;
  readonly sentAt: number;
}

/** The things that a client does for its leases. Implemented by `DocumentStore`. */
export interface LeaseClient {
  readonly clientId: string;
  readonly clock: Clock;
  readonly commandTimeoutMs: number;
  readonly watchdogTimeoutMs: number;
  holds(key: string, owner: string, token: number): boolean;
  end(ending: LeaseEnd): void;
  notify(notification: Notification): void;
}

/** Asks the client to release the owner in its document. */
interface LeaseEnd {
  readonly key: string;
  readonly owner: string;
  /** Asked again just before the document changes, because a renewal may have come first. */
  readonly isOver: () => boolean;
  readonly onEnded: () => void;
}

/** Gives each write of a register its not-after, and learns the store's time from each reply. */
export class TimedRegister {
  constructor(private readonly context: TimedContext) {}

  get commandTimeoutMs(): number {
    return this.context.register.commandTimeoutMs;
  }

  get isRemote(): boolean {
    return this.context.register.isRemote;
  }

  /** @param requests the first one takes the lock if the document is free. Otherwise the ones that may wait leave notes. */
  take(name: string, requests: Requests): Promise<TimedReply> {
    const { register, client } = this.context;
    const { minToken } = client;
    const notes = requests.filter(leavesNote).map((each) => noteOf(each, client));
    const [request] = requests;
    return this.write(requests, (notAfter) => register.take({ name, request, notes, minToken, notAfter }));
  }

  /** Writes the changed state, if the document is still the known one. */
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
   * A new connection has told the store's time. Whether the machine was suspended since `sentAt` is unknown, so no validity of a
   * grant is computed from this time.
   */
  onTime(now: number, sentAt: number): void {
    const { serverClock, clock } = this.context;
    serverClock.learn(now, { now: sentAt, wallClockOffset: -Infinity }, clock.now());
  }

  /** A reading that came without a request. */
  arrived(reading: Reading): TimedReading {
    return { reading, sentAt: -Infinity, receivedAt: this.context.clock.now() };
  }

  /** Until the reply, and without one until their not-after, the back end may execute the acquires that the write carries. */
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
 * `isDone`: the write was executed. Otherwise the document is newer than the one that the write was for, or the write came
 * after its not-after.
 */
export interface TimedReply {
  readonly isDone: boolean;
  readonly timed: TimedReading;
}

interface ChangedDocument {
  readonly name: string;
  /** The document that was changed. */
  readonly known: TimedReading;
  readonly state: KeyState;
  /** The acquire requests that the new state may grant. */
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
   * Writes `next` if the document still has the version of `expected`; with `failOnUnreadNotes` only if there are no notes but those of
   * `expected`. Keeps the notes that `expected` did not have. Replies with the document as it is now, written or not.
   */
  swap(swap: Swap): Promise<WriteReply>;
  read(name: string): Promise<Reading>;
  /** Where no notification comes, the register reads this name from time to time and gives `onReading` what has changed. */
  watch?(name: string, interest: PollPriority | undefined): void;
  /** As `LockStore.publishHolderEntry`. */
  publishHolderEntry(entry: HolderEntry): Promise<void>;
  /** As `LockStore.readHolderEntries`. */
  readHolderEntries(clientIds: readonly string[]): Promise<readonly (string | undefined)[]>;
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
export type PollPriority = 'held' | number;

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
  readonly failOnUnreadNotes: boolean;
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
export function sessionEndedError(key: string, reason: 'unready' | 'unknown'): LockStoreError {
  const message = `The session of this client ended while it used the lock "${key}". What was held is lost. Try again.`;
  return new LockStoreError(message, key, reason);
}
