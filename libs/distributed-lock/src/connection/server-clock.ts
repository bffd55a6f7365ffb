import { driftWithin, leaseMargin } from '../port/timing.js';
import { readClocks, type Clock, type ClockReading } from '../common/clock.js';

/**
 * Converts between the server's time and ours, by the last reply that told the server's time.
 *
 * A reply was made after its request was sent and before it was received. Each use takes the end of that span that is
 * safe for it.
 */
export class ServerClock {
  /** Time from request to reply at the last `TIME`, in ms. */
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
   * Until when the owner of a grant may believe in it, if a notification or a document tells of the grant. It may have been
   * under way for long: the lease began when the server wrote it, not now.
   *
   * With little of the lease left, or after the machine was suspended meanwhile, the answer is `-Infinity`: a renewal must
   * confirm the grant before a caller enters.
   */
  validityOf(grantedAt: number, leaseMs: number): number {
    const { now, wallClockOffset } = readClocks(this.clock);
    const ahead = Math.max(0, wallClockOffset - this.sent.wallClockOffset);
    const startedAt = Math.min(now, this.toLocal(grantedAt, now)) - ahead;
    const believed = startedAt + leaseMs - leaseMargin(leaseMs);
    return believed - now >= leaseMs / 3 ? believed : -Infinity;
  }

  /**
   * Our time at the server's `serverMs`, at the earliest, so that no holder believes in a lease for longer than it lasts. The clocks
   * may have run apart since the server told its time, which may be long ago: a grant may overtake the reply that tells it.
   */
  private toLocal(serverMs: number, now: number): number {
    return this.sent.now + (serverMs - this.serverMs) - driftWithin(now - this.sent.now);
  }
}
