import { LockStoreError } from '../../port/lock.errors.js';
import type { AcquireRequest } from '../../port/lock-store.js';
import { leadOf, type Clock } from '../../time/clock.js';
import type { OwnerStates } from '../common/owner-states.js';
import type { Sent, ServerClock } from '../common/server-clock.js';
import { isFree } from './document.js';
import { noteOf, type KeyState, type Stepper } from './key-state.js';
import type { Reading, Register, Take } from './register.js';

/** A document, and when this client asked for it and got it, in ms of its own clock. */
export interface Seen extends Reading {
  readonly sentAt: number;
  readonly receivedAt: number;
}

/** `isDone`: the write was executed. Otherwise the document is newer than the one that the write was for. */
export interface Written {
  readonly isDone: boolean;
  readonly seen: Seen;
}

/** Gives each write of a register its not-after, and learns the store's time from each reply. */
export class TimedRegister {
  constructor(
    private readonly register: Register,
    private readonly stepper: Stepper,
    private readonly owners: OwnerStates,
    private readonly serverClock: ServerClock,
    private readonly clock: Clock,
  ) {}

  get commandTimeoutMs(): number {
    return this.register.commandTimeoutMs;
  }

  get isRemote(): boolean {
    return this.register.isRemote;
  }

  /** @param requests the first takes the lock if the document is free. Otherwise those that wait leave notes. */
  async take(name: string, requests: readonly [AcquireRequest, ...AcquireRequest[]]): Promise<Written> {
    const [request] = requests;
    const { minToken } = this.stepper;
    const notes = requests.filter(({ waitMs }) => waitMs > 0).map((each) => noteOf(each, minToken));
    return this.write(requests, async (notAfter) => {
      const { isTaken, reading } = await this.register.take({ name, request, notes, minToken, notAfter });
      return { isDone: isTaken, reading };
    });
  }

  /** @returns `null` where the back end cannot */
  async takeAll(
    names: readonly string[],
    requests: readonly AcquireRequest[],
  ): Promise<readonly Seen[] | { readonly index: number; readonly seen: Seen } | null> {
    const { register } = this;
    if (!register.takeAll) return null;
    const { minToken } = this.stepper;
    const sent = this.sent();
    const reply = await this.asSent(requests, (notAfter) => {
      const take = (request: AcquireRequest, i: number) =>
        ({ name: names[i] as string, request, notes: [], minToken, notAfter }) satisfies Take;
      return (register as Required<Register>).takeAll(requests.map(take));
    });
    if ('index' in reply) return { index: reply.index, seen: this.received(reply.reading, sent) };
    return reply.map((reading) => this.received(reading, sent));
  }

  /** @param requests those that the new state may grant */
  async swap(
    name: string,
    seen: Seen,
    state: KeyState,
    requests: readonly AcquireRequest[],
  ): Promise<Written> {
    const { document: next, lastToken, isExact, told } = state;
    const mayBeForgotten = isFree(next);
    return this.write(requests, async (notAfter) => {
      const swap = { name, seen, next, lastToken, isExact, told, mayBeForgotten, notAfter };
      const { isSwapped, reading } = await this.register.swap(swap);
      return { isDone: isSwapped, reading };
    });
  }

  async read(name: string): Promise<Seen> {
    const sent = this.sent();
    return this.received(await this.register.read(name), sent);
  }

  /** A new connection has told the store's time. */
  onTime(now: number, sentAt: number): void {
    this.serverClock.learn(now, { sentAt, sentLead: leadOf(this.clock) }, this.clock.now());
  }

  /** For a reading that came without a request: nobody knows when it was made. */
  arrived(reading: Reading): Seen {
    const now = this.clock.now();
    return { ...reading, sentAt: now, receivedAt: now };
  }

  private async write(
    requests: readonly AcquireRequest[],
    send: (notAfter: () => number) => Promise<{ readonly isDone: boolean; readonly reading: Reading }>,
  ): Promise<Written> {
    const sent = this.sent();
    const { isDone, reading } = await this.asSent(requests, send);
    return { isDone, seen: this.received(reading, sent) };
  }

  /** Until the reply, the back end may execute the acquires at any time before their not-after. */
  private async asSent<Reply>(
    requests: readonly AcquireRequest[],
    send: (notAfter: () => number) => Promise<Reply>,
  ): Promise<Reply> {
    const states = requests.map(({ owner }) => this.owners.begin(owner));
    let isSent = false;
    let mayComeLate = false;
    try {
      return await send(() => {
        isSent = true;
        const now = this.serverClock.earliest(this.clock.now());
        const notAfter = now + Math.ceil(this.register.commandTimeoutMs);
        for (const state of states) state.onAcquireSent(notAfter);
        return notAfter;
      });
    } catch (error) {
      mayComeLate = error instanceof LockStoreError && error.reason === 'unknown';
      throw error;
    } finally {
      if (isSent && !mayComeLate) for (const state of states) state.onAcquireAnswered();
      for (const { owner } of requests) this.owners.end(owner);
    }
  }

  private sent(): Sent {
    return { sentAt: this.clock.now(), sentLead: leadOf(this.clock) };
  }

  private received(reading: Reading, sent: Sent): Seen {
    const receivedAt = this.clock.now();
    this.serverClock.learn(reading.now, sent, receivedAt);
    return { ...reading, sentAt: sent.sentAt, receivedAt };
  }
}
