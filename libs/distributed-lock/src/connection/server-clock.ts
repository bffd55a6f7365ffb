import { driftWithin, leaseMargin } from '../port/timing.js';
import { readClocks, type Clock, type ClockReading } from '../common/clock.js';

/**
 * Converts between the server's time and ours, from the last reply that told the server's time.
 *
 * The server made that reply at some moment after we sent the request and before we received the reply. Each conversion assumes
 * the end of that span that is safe for its purpose.
 */
export class ServerClock {
  /** How long the last command `TIME` of Redis took from request to reply, in ms. */
  roundTripMs = 0;
  private sent: ClockReading = { now: 0, wallClockOffset: 0 };
  private receivedAt = 0;
  private serverMs = 0;

  constructor(private readonly clock: Clock) {}

  learn(serverMs: number, sent: ClockReading, receivedAt: number): void {
    this.serverMs = serverMs;
    this.sent = sent;
    this.receivedAt = receivedAt;
  }

  /** A lower bound of the server's time at our `now`, so that a not-after made from it is too early rather than too late. */
  earliest(now: number): number {
    return Math.floor(this.serverMs + (now - this.receivedAt));
  }

  /**
   * Until when, by our clock, the owner may believe in a grant that it learns of from a notification or a document. The message
   * may have been on its way for long, so the lease counts from when the server wrote the grant, and not from now.
   *
   * `-Infinity` if less than a third of the lease is left, or if the machine was suspended meanwhile: a renewal must then confirm
   * the grant before a caller enters.
   */
  validityOf(grantedAt: number, leaseMs: number): number {
    const { now, wallClockOffset } = readClocks(this.clock);
    const ahead = Math.max(0, wallClockOffset - this.sent.wallClockOffset);
    const startedAt = Math.min(now, this.toLocal(grantedAt, now)) - ahead;
    const believed = startedAt + leaseMs - leaseMargin(leaseMs);
    return believed - now >= leaseMs / 3 ? believed : -Infinity;
  }

  /**
   * A lower bound of our time at the server's time `serverMs`, so that no holder believes in a lease for longer than it lasts.
   * The clocks may have drifted apart since the server last told its time. That may be long ago, because the message with a grant
   * may arrive before the reply with a newer time.
   */
  private toLocal(serverMs: number, now: number): number {
    return this.sent.now + (serverMs - this.serverMs) - driftWithin(now - this.sent.now);
  }
}
