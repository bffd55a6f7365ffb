import type { Clock } from '../common/clock.js';
import { ReplyDeadline, type WaitingRequests } from './reply-deadline.js';

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
