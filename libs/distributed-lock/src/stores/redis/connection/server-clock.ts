/** When a command was sent, and how far the time of day was ahead of our clock then. */
export interface Sent {
  readonly sentAt: number;
  readonly sentLead: number;
}

/**
 * Converts between the server's time and ours, by the last reply that told the server's time.
 *
 * A reply was made after its request was sent and before it was received. Each use takes the end of that span that is
 * the safe one.
 */
export class ServerClock {
  /** How far the time of day was ahead of our clock at the request whose reply last told the time. */
  sentLead = 0;
  /** Time from request to reply at the last `TIME`, in ms. */
  roundTripMs = 0;
  private sentAt = 0;
  private receivedAt = 0;
  private serverMs = 0;

  learn(serverMs: number, { sentAt, sentLead }: Sent, receivedAt: number): void {
    this.serverMs = serverMs;
    this.sentAt = sentAt;
    this.sentLead = sentLead;
    this.receivedAt = receivedAt;
  }

  /** Server time at our `now`, at the earliest: a request is rather refused than executed after its not-after. */
  earliest(now: number): number {
    return Math.floor(this.serverMs + (now - this.receivedAt));
  }

  /** Our time at the server's `serverMs`, at the earliest, so that no holder believes in a lease for longer than it lasts. */
  toLocal(serverMs: number): number {
    return this.sentAt + (serverMs - this.serverMs);
  }
}
