/**
 * The server's time in terms of ours, from the last reply.
 *
 * A reply was made after its request was sent and before it was received; each use takes the end of that span that is
 * the safe one.
 */
export class ServerClock {
  /** How far the time of day was ahead of our clock when the reply was asked for that is read now. */
  replyLead = 0;
  /** The same for the last reply that told the time. */
  sentLead = 0;
  private sentAt = 0;
  private receivedAt = 0;
  private serverMs = 0;
  /** Time from asking to answer at the last `TIME`, in ms. */
  roundTripMs = 0;

  learn(serverMs: number, sentAt: number, receivedAt: number): void {
    this.serverMs = serverMs;
    this.sentAt = sentAt;
    this.sentLead = this.replyLead;
    this.receivedAt = receivedAt;
  }

  /** Server time at our `now`, at the earliest: what must not be executed after it is rather refused than late. */
  earliest(now: number): number {
    return Math.floor(this.serverMs + (now - this.receivedAt));
  }

  /** Our time at the server's `serverMs`, at the earliest: a lease that started then is believed in no longer than it lasts. */
  toLocal(serverMs: number): number {
    return this.sentAt + (serverMs - this.serverMs);
  }
}
