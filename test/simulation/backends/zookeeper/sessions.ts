import type { Kernel } from '../../kernel/kernel.js';

interface Session {
  readonly openedAt: number;
  /** As the client and the servers have agreed. */
  timeoutMs: number;
  /** True time: ZooKeeper counts by a monotonic clock. */
  endsAt: number;
  closedAt: number;
  cancelEnd: () => void;
}

export interface SessionLengths {
  readonly leastMs: number;
  readonly mostMs: number;
}

/** The sessions as the leader counts them. */
export class Sessions {
  /** All that were ever opened. */
  private readonly sessions = new Map<bigint, Session>();
  private opened = 0;

  /**
   * @param trueMs how long so many ms of the leader's clock really take
   * @param mayEnd whether there is a leader that can end sessions
   * @param onOverdue is to close the session
   */
  constructor(
    private readonly kernel: Kernel,
    private readonly lengths: SessionLengths,
    private readonly trueMs: (ms: number) => number,
    private readonly mayEnd: () => boolean,
    private readonly onOverdue: (id: bigint) => void,
  ) {}

  has(id: bigint): boolean {
    return this.sessions.get(id)?.closedAt === Infinity;
  }

  timeoutOf(id: bigint): number {
    return this.sessions.get(id)?.timeoutMs ?? 0;
  }

  /** In true ms. A session does not end while no leader can end it. */
  leftOf(id: bigint): number {
    const session = this.sessions.get(id);
    if (!session || session.closedAt < Infinity) return 0;
    return this.mayEnd() ? Math.max(0, session.endsAt - this.kernel.now) : Infinity;
  }

  open(askedMs: number): bigint {
    const { now } = this.kernel;
    // A number of 64 bits whose first one is set, as that of a server whose id is above 127.
    const id = BigInt.asIntN(64, (200n << 56n) | (BigInt(Math.floor(now)) << 16n) | BigInt(++this.opened));
    const timeoutMs = this.lengthFor(askedMs);
    const endsAt = now + this.trueMs(timeoutMs);
    this.sessions.set(id, {
      openedAt: now,
      timeoutMs,
      endsAt,
      closedAt: Infinity,
      cancelEnd: () => undefined,
    });
    this.wait(id);
    return id;
  }

  /** The client was heard. */
  touch(id: bigint): void {
    const session = this.sessions.get(id);
    if (session) session.endsAt = Math.max(session.endsAt, this.kernel.now + this.trueMs(session.timeoutMs));
  }

  /** The client has another connection. @returns whether the session lives */
  resume(id: bigint, askedMs: number): boolean {
    const session = this.sessions.get(id);
    if (!session || session.closedAt < Infinity) return false;
    session.timeoutMs = this.lengthFor(askedMs);
    this.touch(id);
    return true;
  }

  close(id: bigint): void {
    const session = this.sessions.get(id);
    if (session) session.closedAt = this.kernel.now;
  }

  /** A leader that was elected a moment ago gives each session its whole length. */
  beginAnew(): void {
    for (const [id, session] of this.sessions) {
      if (session.closedAt < Infinity) continue;
      session.endsAt = this.kernel.now + this.trueMs(session.timeoutMs);
      this.wait(id);
    }
  }

  /** Sessions that were opened since then were never opened, and those that were closed since then live. */
  goBackTo(time: number): void {
    for (const [id, session] of this.sessions) {
      if (session.openedAt >= time) this.sessions.delete(id);
      else if (session.closedAt >= time) session.closedAt = Infinity;
    }
  }

  endOverdue(): void {
    for (const id of this.sessions.keys()) this.endIfOverdue(id);
  }

  private lengthFor(askedMs: number): number {
    const { leastMs, mostMs } = this.lengths;
    return Math.min(mostMs, Math.max(leastMs, askedMs));
  }

  /** One timer for a session: it is set again while its client is heard. */
  private wait(id: bigint): void {
    const session = this.sessions.get(id);
    if (!session) return;
    session.cancelEnd();
    session.cancelEnd = this.kernel.at(session.endsAt, () => this.endIfOverdue(id));
  }

  private endIfOverdue(id: bigint): void {
    const session = this.sessions.get(id);
    if (!session || session.closedAt < Infinity || !this.mayEnd()) return;
    if (session.endsAt > this.kernel.now) this.wait(id);
    else this.onOverdue(id);
  }
}
