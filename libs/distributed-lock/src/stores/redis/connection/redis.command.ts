import type { Cluster, Redis } from 'ioredis';
import type { LockStoreError } from '../../../port/lock.errors.js';

export type Client = Redis | Cluster;

/** On a new connection what gives up goes first, then what keeps, then what asks (docs/decisions/0003, P16). */
export type Priority = 'release' | 'renew' | 'acquire';

/** Found too late by the server, which has done nothing: our idea of its time was old. */
export const EXPIRED = Symbol('late');

/** Something to ask the server: how it is written, and what becomes of its answer. */
export interface Command<Value = unknown, Result = unknown> {
  readonly urgency: Priority;
  readonly key: string | undefined;
  /** It leaves at once, ahead of what follows in this turn of the event loop. */
  readonly isPressing?: boolean | undefined;
  /** Somebody goes on when it is answered: it leaves at once if the server has nothing of ours to do. */
  readonly isAwaited?: boolean | undefined;
  /** It may be executed twice: it is asked once more when a connection that had been idle has swallowed it. */
  readonly isRepeatable?: boolean | undefined;
  /** Writes it, which may be later than it was asked for. May refuse, by throwing. */
  send(client: Client): Promise<Value>;
  /** Writes it anew where this answer calls for that; `undefined` if the answer stands. */
  sendAgain?(client: Client, error: unknown): Promise<Value> | undefined;
  /**
   * @param sentAt when it was written, on the clock of the store
   * @returns `LATE` to be written once more, now that the answer has told the time
   */
  read(value: Value, sentAt: number): Result | typeof EXPIRED;
  /** Says in other words what the server has refused, and may ask it about that. Never rejects. */
  explain?(client: Client, error: unknown): Promise<LockStoreError | undefined>;
  /** It has no answer, or a refusal. */
  onFailed?(error: LockStoreError): void;
}
