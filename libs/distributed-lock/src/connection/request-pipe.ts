import { type Clock, giveUpAfter } from '../common/clock.js';

/** Sends the requests of one connection in batches, one at a time. Requests that arrive meanwhile go into the next batch. */
export class RequestPipe<Request extends PipedRequest> {
  private inFlight: readonly Request[] = [];
  private readonly deadline: ReplyDeadline<Request>;
  private isScheduled = false;
  private isClosed = false;

  constructor(private readonly options: PipeOptions<Request>) {
    const { clock, commandTimeoutMs, waiting } = options;
    this.deadline = new ReplyDeadline({
      clock,
      commandTimeoutMs,
      unanswered: () => [...waiting, ...this.inFlight],
      onDue: (isDue) => this.onDue(isDue),
    });
  }

  add(request: Request): void {
    if (this.isClosed) return request.reject(this.options.closedError(request.key, 'unreachable'));
    this.options.waiting.push(request);
    this.schedule();
    this.deadline.start();
  }

  /** Sends the next batch in a microtask, so that requests that are added meanwhile go along. */
  schedule(): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    queueMicrotask(() => {
      this.isScheduled = false;
      this.sendNext();
    });
  }

  sendNext(): void {
    const { waiting, sendBatch } = this.options;
    if (!this.isClosed && this.inFlight.length === 0 && waiting.size > 0) sendBatch();
  }

  send<Reply>(batch: readonly Request[], reply: Promise<Reply>, { onReply, onFailure }: Settle<Reply>): void {
    this.inFlight = batch;
    const isInFlight = (): boolean => this.inFlight === batch;
    const onFailed = (error: unknown): void => (isInFlight() ? onFailure(error) : undefined);
    const onReplied = (value: Reply): void => {
      if (!isInFlight()) return;
      try {
        this.onAnswer();
        onReply(value);
        this.sendNext();
      } catch (error) {
        onFailed(error);
      }
    };
    reply.then(onReplied, onFailed);
    this.deadline.start();
  }

  /** The server has just replied, so requests that waited for the connection get their full `commandTimeoutMs` from now. */
  onOpen(): void {
    this.deadline.onReply();
    this.schedule();
  }

  /** Called when the server has replied to the batch in flight. */
  onAnswer(): void {
    this.deadline.onReply();
    this.inFlight = [];
  }

  takeInFlight(): readonly Request[] {
    const { inFlight } = this;
    this.inFlight = [];
    return inFlight;
  }

  close(): void {
    const { waiting, closedError } = this.options;
    this.isClosed = true;
    this.deadline.stop();
    for (const request of this.takeInFlight()) request.reject(closedError(request.key, 'unknown'));
    for (const request of waiting.take()) request.reject(closedError(request.key, 'unreachable'));
  }

  private onDue(isDue: (request: Request) => boolean): void {
    const { waiting, commandTimeoutMs, onSilence, lateError } = this.options;
    const isBehind = this.inFlight.length > 0;
    if (this.inFlight.some(isDue)) onSilence(new Error(`nothing came back within ${commandTimeoutMs} ms`));
    for (const request of waiting.take(isDue)) request.reject(lateError(request, isBehind));
  }
}

export interface PipedRequest {
  readonly key: string | undefined;
  /** When the request was added, by our clock, in ms. */
  readonly since: number;
  reject(error: unknown): void;
}

interface PipeOptions<Request> {
  readonly clock: Clock;
  readonly commandTimeoutMs: number;
  readonly waiting: WaitingRequests<Request>;
  /** Passes a batch of `waiting` to `send`, if there is a connection. Called only while no batch is in flight. */
  readonly sendBatch: () => void;
  /** Called when the batch in flight got no reply in time. Must reject its requests and replace the connection. */
  readonly onSilence: (error: Error) => void;
  /** @param isBehind the request waited for the reply to an earlier batch, and not for a connection */
  readonly lateError: (request: Request, isBehind: boolean) => unknown;
  readonly closedError: (key: string | undefined, reason: 'unreachable' | 'unknown') => unknown;
}

/** Neither function is called after the batch was given up. */
interface Settle<Reply> {
  readonly onReply: (reply: Reply) => void;
  /** Must call `onAnswer` or `takeInFlight`, or no other batch is ever sent. */
  readonly onFailure: (error: unknown) => void;
}

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
