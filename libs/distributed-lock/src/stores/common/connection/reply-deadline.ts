import { giveUpAfter } from '../../../time/turns.js';
import type { Clock } from '../../../time/clock.js';

/**
 * One timer for all requests of a connection. A deadline counts from the last reply, so that a request fails only when the
 * server has stopped replying.
 */
export class ReplyDeadline<Request extends { readonly since: number }> {
  private repliedAt = -Infinity;
  private cancel: (() => void) | undefined;

  constructor(private readonly options: DeadlineOptions<Request>) {}

  /** A request was added to those without a reply. */
  start(): void {
    if (!this.cancel) this.fireIn(this.options.commandTimeoutMs);
  }

  onReply(at = this.options.clock.now()): void {
    this.repliedAt = at;
  }

  /** Replaces the moment of the next check. */
  fireIn(ms: number): void {
    this.stop();
    this.cancel = giveUpAfter(this.options.clock, ms, (overAt) => this.onOver(overAt));
  }

  stop(): void {
    this.cancel?.();
    this.cancel = undefined;
  }

  /** @param overAt when the timer was due. A request that was sent since then, in a long turn of the event loop, had no time for a reply */
  private onOver(overAt: number): void {
    const { unanswered, onDue, clock } = this.options;
    this.cancel = undefined;
    onDue((request) => this.dueAt(request) <= overAt);
    let next = Infinity;
    for (const request of unanswered()) next = Math.min(next, this.dueAt(request));
    if (next < Infinity) this.fireIn(Math.max(1, Math.ceil(next - clock.now())));
  }

  private dueAt(request: Request): number {
    const { timeoutOf, commandTimeoutMs } = this.options;
    return Math.max(request.since, this.repliedAt) + (timeoutOf?.(request) ?? commandTimeoutMs);
  }
}

interface DeadlineOptions<Request> {
  readonly clock: Clock;
  readonly commandTimeoutMs: number;
  /** How long this request may take, where that is not `commandTimeoutMs`. */
  readonly timeoutOf?: (request: Request) => number;
  /** The requests without a reply: those that wait and those in flight. */
  readonly unanswered: () => Iterable<Request>;
  readonly onDue: (isDue: (request: Request) => boolean) => void;
}
