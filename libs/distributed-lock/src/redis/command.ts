import { Linked } from '../common/collections.js';
import type { ClockReading } from '../common/clock.js';
import type { LockStoreError } from '../port/lock.errors.js';
import type { RedisClient } from './client.js';
import { WaitingRequests } from '../connection/request-pipe.js';
import { asStoreError, asUnsureError } from './errors.js';

/** The order in which a new connection sends the commands that have waited for it (docs/decisions/0003). */
const RANK = { release: 0, renew: 1, acquire: 2 };

/**
 * Returned by `read` if the command reached the server after its not-after and so was not executed: our estimate of the server's
 * time was out of date.
 */
export const TOO_LATE = Symbol('too late');

const NOT_SENT: ClockReading = { now: 0, wallClockOffset: 0 };

/** One command to Redis: how it is written, what its reply means, and how far the connection has got with it. */
export abstract class RedisCommand<Result = unknown> extends Linked {
  abstract readonly key: string | undefined;
  abstract readonly priority: Priority;
  readonly flush: Flush | undefined;
  /**
   * True for a command that may be executed twice without harm. If an idle connection turns out to be dead, the store sends the command
   * again on a new one.
   */
  readonly isRepeatable: boolean = false;

  /** When its deadline starts: at the call, and anew when its first copy is written. */
  since = 0;
  /** When its latest copy was written. */
  sent = NOT_SENT;
  /** True as soon as the command is to be written a second time. The first copy got no reply, and the server may still execute it. */
  isSecondCopy = false;
  /** True after the server refused a copy that arrived after its not-after. */
  wasTooLate = false;
  private resolve: ((result: Result) => void) | undefined;
  private reject: ((error: unknown) => void) | undefined;

  /** Writes the command, maybe long after its caller asked. Throws if it must not be written now. */
  abstract send(client: RedisClient): Promise<unknown>;
  /** Interprets the reply. @returns `TOO_LATE` if the command must be sent again, now that the reply has told us the server's time */
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

type Priority = keyof typeof RANK;

/**
 * When a command is written to the socket. `now`: before this turn of the event loop goes on. `when idle`: at once if no other
 * command is in flight, because a caller awaits the reply; otherwise together with the other commands of this turn, in one system
 * call. `undefined`: together with the others of this turn.
 */
type Flush = 'now' | 'when idle';

/** Pings the server, or each connected master of a cluster. The client of a cluster ends the connection to a node that does not reply. */
export class Ping extends RedisCommand<undefined> {
  readonly key = undefined;
  readonly priority = 'renew';

  send(client: RedisClient): Promise<unknown> {
    if (!client.isCluster) return client.call('ping', []);
    const open = client.masters().filter(({ isReady }) => isReady);
    return Promise.allSettled(open.map((node) => node.call('ping', [])));
  }

  read(): undefined {
    return undefined;
  }
}

/** Commands that wait for a connection, or for fewer commands in flight: releases first, then renewals, then acquires. */
export class WaitingCommands extends WaitingRequests<RedisCommand> {
  override push(command: RedisCommand): void {
    const rank = RANK[command.priority];
    const before = this.requests.findLastIndex(({ priority }) => RANK[priority] <= rank);
    this.requests.splice(before + 1, 0, command);
  }

  shift(): RedisCommand | undefined {
    return this.requests.shift();
  }
}
