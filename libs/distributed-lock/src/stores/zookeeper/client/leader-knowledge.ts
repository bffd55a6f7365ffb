/**
 * The leader sends a ping within this part of a session. It sends two in each tick, and a session has two ticks at least. An
 * eighth is added for a ping that is late.
 */
const PINGED_WITHIN = (1 / 4) * (9 / 8);

/**
 * Knows the newest request of this client from which the leader certainly counts the session.
 *
 * A follower does not report a session when it gets a request of it. It reports the sessions of which it got requests in its
 * answer to the leader's next ping. The ping and the answer may take any time. So a request `heard` is reported for certain once
 * three steps followed each other:
 *
 * 1. The reply to `heard` has come, and `PINGED_WITHIN` has passed. By then the leader has sent a ping that the follower
 *    gets after `heard`.
 * 2. A `sync` was sent after that, and answered. What the leader sends to one follower arrives in order, so the ping has
 *    arrived before the answer to the `sync`, and the follower has answered the ping.
 * 3. A write was sent after that, and answered. What one follower sends to the leader arrives in order, too, so the leader
 *    has read the answer to the ping. The write shows that it was still the leader.
 *
 * Any later leader counts the session from its own election, which is later than the write.
 */
export class LeaderKnowledge {
  /** Requests in the order of their answers. */
  private readonly answered: Answered[] = [];

  constructor(private readonly sessionMs: number) {}

  onAnswered(request: Answered): void {
    this.answered.push(request);
  }

  /**
   * To be called when the write behind an answered `sync` was answered.
   *
   * @param syncSentAt when the `sync` was sent
   * @returns when the newest request was sent that was reported for certain; `-Infinity` without one
   */
  countedFrom(syncSentAt: number): number {
    const pingedSince = syncSentAt - this.sessionMs * PINGED_WITHIN;
    const { answered } = this;
    while ((answered[1]?.answeredAt ?? Infinity) <= pingedSince) answered.shift();
    const [newest] = answered;
    return newest && newest.answeredAt <= pingedSince ? newest.sentAt : -Infinity;
  }
}

/** A request of this client that was answered, on our clock. */
interface Answered {
  readonly sentAt: number;
  readonly answeredAt: number;
}
