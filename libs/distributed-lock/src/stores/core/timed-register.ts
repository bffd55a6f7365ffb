import { LockStoreError } from '../../port/lock.errors.js';
import type { AcquireRequest } from '../../port/lock-store.js';
import { readClocks, type Clock, type ClockReading } from '../../time/clock.js';
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
    const { minToken } = client;
    const notes = requests.filter(leavesNote).map((each) => noteOf(each, client));
    const [request] = requests;
    return this.write(requests, (notAfter) => register.take({ name, request, notes, minToken, notAfter }));
  }

  /** Writes the changed state, if the document is still the known one. */
  swap({ name, known, state, requests }: ChangedDocument): Promise<TimedReply> {
    const { document: next, lastToken, isExact, notified } = state;
    const expected = known.reading;
    const swap = { name, expected, next, lastToken, isExact, notified, mayBeForgotten: isFree(next) };
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
    serverClock.learn(now, { now: sentAt, lead: -Infinity }, clock.now());
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
