import { Linked } from '../common/collections.js';
import type { ClockReading } from '../common/clock.js';
import type { LockStoreError } from '../port/lock.errors.js';
import type { RedisClient, CommandReply } from './client.js';
import { asStoreError, asUnsureError } from './errors.js';

/**
 * Returned by `read` if the command reached the server after its deadline (`notAfter`, in server time) and so was not executed: our
 * estimate of the server's time was out of date.
 */
export const TOO_LATE = Symbol('too late');

const NOT_SENT: ClockReading = { now: 0, wallClockOffset: 0 };

/** One command to Redis: how it is written, what its reply means, and how far the connection has got with it. */
export abstract class RedisCommand<Result = unknown> extends Linked {
  abstract readonly key: string | undefined;
  abstract readonly priority: 'release' | 'renew' | 'acquire';
  readonly flush: Flush | undefined;
  /**
   * True for a command that may be executed twice without harm. If an idle connection turns out to be dead, the store sends the command
   * again on a new one.
   */
  readonly isRepeatable: boolean = false;

  /** When the time for a reply starts: at the call, and again when the first copy is written. */
  since = 0;
  /** When the latest copy was written. */
  sent = NOT_SENT;
  /** True as soon as the command is to be written a second time. The first copy got no reply, and the server may still execute it. */
  isSecondCopy = false;
  /** True after the server refused a copy because it arrived after its deadline. */
  wasTooLate = false;
  private resolve: ((result: Result) => void) | undefined;
  private reject: ((error: unknown) => void) | undefined;

  /** Writes the command, maybe long after its caller asked. Throws if it must not be written now. */
  abstract send(client: RedisClient): Promise<unknown> | CommandReply;
  /** Interprets the reply. @returns `TOO_LATE` if the command must be sent again, now that the reply has corrected our estimate of the server's time */
  abstract read(value: unknown, receivedAt: number): Result | typeof TOO_LATE;

  /**
   * Called when the server replies with an error. Resolves with the reply to another request that the command sends instead, or
   * rejects with the `LockStoreError` for its caller.
   */
  recover(_client: RedisClient, error: unknown): Promise<unknown> {
    return Promise.reject(asStoreError(error, this.key));
  }

  protected onFailed(_error: LockStoreError): void {}

  start(since: number, resolve: (result: Result) => void, reject: (error: unknown) => void): void {
    this.since = since;
    this.resolve = resolve;
    this.reject = reject;
  }

  succeed(result: Result): void {
    this.resolve?.(result);
  }

  fail(error: LockStoreError): void {
    const failure = this.isSecondCopy ? asUnsureError(error) : error;
    this.onFailed(failure);
    this.reject?.(failure);
  }
}

/**
 * When a command is written to the socket. `now`: before this turn of the event loop goes on. `when idle`: at once if no other
 * command is in flight, because a caller awaits the reply; otherwise together with the other commands of this turn, in one system
 * call. `undefined`: together with the others of this turn.
 */
type Flush = 'now' | 'when idle';
