import { CONFIRM_FIRST } from '../port/lock-store.js';
import { driftWithin, leaseMargin } from '../port/timing.js';
import { readClocks, type Clock, type ClockReading } from '../common/clock.js';

/**
 * Converts between the server's time and ours, by the last reply that contained the server's time. The server read its clock at some
 * moment between our request and the arrival of its reply. Each conversion assumes whichever end is the safe one for its purpose.
 */
export class ServerClock {
  private sent: ClockReading = { now: 0, wallClockOffset: 0 };
  private receivedAt = 0;
  private serverMs = 0;

  constructor(private readonly clock: Clock) {}

  learn(serverMs: number, sent: ClockReading, receivedAt: number): void {
    this.serverMs = serverMs;
    this.sent = sent;
    this.receivedAt = receivedAt;
  }

  /** The earliest that the server's clock may show at our time `now`, so that a deadline is rather too early than too late. */
  earliest(now: number): number {
    return Math.floor(this.serverMs + (now - this.receivedAt));
  }

  /**
   * Until when, by our clock, the owner may believe in a grant that it learns of from a notification or a document. That message
   * may have travelled for long, so the lease counts from when the server wrote the grant, and not from now.
   *
   * `CONFIRM_FIRST` if less than a third of the lease is left, or if this machine was suspended meanwhile.
   */
  validityOf(grantedAt: number, leaseMs: number): number {
    const { now, wallClockOffset } = readClocks(this.clock);
    const ahead = Math.max(0, wallClockOffset - this.sent.wallClockOffset);
    const startedAt = Math.min(now, this.toLocal(grantedAt, now)) - ahead;
    const believed = startedAt + leaseMs - leaseMargin(leaseMs);
    return believed - now >= leaseMs / 3 ? believed : CONFIRM_FIRST;
  }

  /**
   * The earliest that our clock may have shown at the server's time `serverMs`. A holder that counts its lease from there stops
   * believing in the lease before the server ends it. The last reply with the server's time may be old, so the result allows for
   * the drift of both clocks since then.
   */
  private toLocal(serverMs: number, now: number): number {
    return this.sent.now + (serverMs - this.serverMs) - driftWithin(now - this.sent.now);
  }
}
