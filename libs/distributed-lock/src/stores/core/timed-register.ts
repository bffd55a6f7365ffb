import { LockStoreError } from '../../port/lock.errors.js';
import type { AcquireRequest } from '../../port/lock-store.js';
import { readClocks, type Clock } from '../../time/clock.js';
import type { OwnerRequests, RequestsByOwner } from '../common/owner-requests.js';
import type { ServerClock } from '../common/server-clock.js';
import { isFree, type Reading, type TimedReading } from './document.js';
import type { KeyState, ActingClient } from './key-state.js';
import type { Register, WriteReply } from './register.js';
import { leavesNote, noteOf } from './waiter-note.js';

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
    const sending = new Sending(this.context, requests);
    const { minToken } = client;
    const notes = requests.filter(leavesNote).map((each) => noteOf(each, client));
    const [request] = requests;
    const { notAfter } = sending;
    return sending.settle(register.take({ name, request, notes, minToken, notAfter }));
  }

  /** @param requests the acquire requests that the new state may grant */
  swap(
    name: string,
    { reading: expected }: TimedReading,
    state: KeyState,
    requests: readonly AcquireRequest[],
  ): Promise<TimedReply> {
    const sending = new Sending(this.context, requests);
    const { document: next, lastToken, isExact, notified } = state;
    const mayBeForgotten = isFree(next);
    const { notAfter } = sending;
    const swap = { name, expected, next, lastToken, isExact, notified, mayBeForgotten, notAfter };
    return sending.settle(this.context.register.swap(swap));
  }

  async read(name: string): Promise<TimedReading> {
    const sending = new Sending(this.context, []);
    return sending.onReply(await this.context.register.read(name));
  }

  /**
   * A new connection has told the store's time. Whether the machine was suspended since `sentAt` is unknown, so no validity of a
   * grant is computed from this time.
   */
  onTime(now: number, sentAt: number): void {
    const { serverClock, clock } = this.context;
    serverClock.learn(now, { now: sentAt, lead: -Infinity }, clock.now());
  }

  /** A reading that came without a request. */
  arrived(reading: Reading): TimedReading {
    return { reading, sentAt: -Infinity, receivedAt: this.context.clock.now() };
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

interface TimedContext {
  readonly register: Register;
  readonly client: ActingClient;
  readonly owners: RequestsByOwner;
  readonly serverClock: ServerClock;
  readonly clock: Clock;
}

/** One request to a register, and the acquires that it carries. */
class Sending {
  private readonly sentAt: number;
  private readonly sentLead: number;
  private requestsOf: readonly OwnerRequests[] = [];
  private sentNotAfter: number | undefined;

  constructor(
    private readonly context: TimedContext,
    private readonly requests: readonly AcquireRequest[],
  ) {
    ({ now: this.sentAt, lead: this.sentLead } = readClocks(context.clock));
  }

  readonly notAfter = (): number => (this.sentNotAfter ??= this.onSending());

  onReply(reading: Reading): TimedReading {
    const { clock, serverClock } = this.context;
    const { sentAt, sentLead } = this;
    const receivedAt = clock.now();
    serverClock.learn(reading.now, { now: sentAt, lead: sentLead }, receivedAt);
    this.finish(false);
    return { reading, sentAt, receivedAt };
  }

  settle(write: Promise<WriteReply>): Promise<TimedReply> {
    return write.then(
      ({ isDone, reading }) => ({ isDone, timed: this.onReply(reading) }),
      (error) => {
        this.finish(error instanceof LockStoreError && error.reason === 'unknown');
        throw error;
      },
    );
  }

  /** Until the reply, the back end may execute the acquires at any time before their not-after. */
  private onSending(): number {
    const { clock, serverClock, owners, register } = this.context;
    const notAfter = serverClock.earliest(clock.now()) + Math.ceil(register.commandTimeoutMs);
    this.requestsOf = this.requests.map(({ owner }) => owners.beginRequest(owner));
    for (const its of this.requestsOf) its.onAcquireSent(notAfter);
    return notAfter;
  }

  private finish(mayComeLate: boolean): void {
    if (!mayComeLate) for (const its of this.requestsOf) its.onAcquireAnswered();
    for (const [i] of this.requestsOf.entries())
      this.context.owners.endRequest((this.requests[i] as AcquireRequest).owner);
    this.requestsOf = [];
  }
}
