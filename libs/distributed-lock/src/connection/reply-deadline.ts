import { type Clock, giveUpAfter } from '../common/clock.js';

/** Requests that wait for a connection, or for the reply to earlier ones, in the order in which they will be sent. */
export class WaitingRequests<Request> {
  protected requests: Request[] = [];

  get size(): number {
    return this.requests.length;
  }

  push(request: Request): void {
    this.requests.push(request);
  }

  /** Puts requests at the head of the queue. */
  putBack(requests: readonly Request[]): void {
    this.requests = [...requests, ...this.requests];
  }

  /** Removes and returns the requests for which `isWanted` is true. */
  take(isWanted: (request: Request) => boolean = () => true): readonly Request[] {
    const taken: Request[] = [];
    const left: Request[] = [];
    for (const request of this.requests) (isWanted(request) ? taken : left).push(request);
    if (taken.length > 0) this.requests = left;
    return taken;
  }

  [Symbol.iterator](): IterableIterator<Request> {
    return this.requests.values();
  }
}

/**
 * One timer for all requests of a connection. A request has `commandTimeoutMs` from when it was added, or from the server's last
 * reply: a slow server fails no request as long as it goes on replying.
 */
export class ReplyDeadline<Request extends { readonly since: number }> {
  private repliedAt = -Infinity;
  private cancel: (() => void) | undefined;

  constructor(private readonly options: DeadlineOptions<Request>) {}

  start(): void {
    if (!this.cancel) this.fireIn(this.options.commandTimeoutMs);
  }

  onReply(at = this.options.clock.now()): void {
    this.repliedAt = at;
  }

  /** Makes the timer fire in `ms`, whatever it was set to before. */
  fireIn(ms: number): void {
    this.stop();
    this.cancel = giveUpAfter(this.options.clock, ms, (overAt) => this.onOver(overAt));
  }

  stop(): void {
    this.cancel?.();
    this.cancel = undefined;
  }

  /** @param overAt when the timer was due. If it fires late, requests that were due only after that stay: they had no time to get a reply */
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
  /** How long a request may wait for its reply, in ms; default `commandTimeoutMs`. */
  readonly timeoutOf?: (request: Request) => number;
  /** All requests without a reply: those not sent yet, and those in flight. */
  readonly unanswered: () => Iterable<Request>;
  readonly onDue: (isDue: (request: Request) => boolean) => void;
}
