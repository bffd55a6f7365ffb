import type { LockLostError } from '../../port/lock.errors.js';
import type { StoreState } from '../../port/lock-store.js';

/**
 * Where a `LockService` tells its events in the async context of whoever causes them, `asked` in that of the call: for who
 * has to know that context, as tracing does.
 */
export const EVENTS_IN_PLACE = Symbol.for('nestjs-distributed-lock/events-in-place');

/** What happened to a lock of this process. Times are ms; `call` pairs what happened to one caller and one key. */
export type LockEvent =
  /** A caller asks, also if it is refused at once; `acquired` or `abandoned` follows. Nested calls are not told. */
  | { readonly type: 'asked'; readonly call: number; readonly key: string }
  | {
      readonly type: 'acquired';
      readonly call: number;
      readonly key: string;
      readonly owner: string;
      readonly fencingToken: number;
      readonly waitedMs: number;
      /** `local`: handed off by another caller of this process, without asking the store. */
      readonly by: 'store' | 'local';
    }
  | {
      readonly type: 'released';
      readonly call: number;
      readonly key: string;
      readonly owner: string;
      readonly fencingToken: number;
      readonly heldMs: number;
    }
  /** A call ended without the lock: `waitMs` over, not free, aborted, refused by the store or by shutdown. */
  | {
      readonly type: 'abandoned';
      readonly call: number;
      readonly key: string;
      readonly waitedMs: number;
      readonly error: unknown;
    }
  /** A renewal got no answer; the lease is still valid, and renewal goes on. */
  | {
      readonly type: 'suspended';
      readonly key: string;
      readonly owner: string;
      readonly validForMs: number;
      readonly error: Error;
    }
  /** A suspended lease was renewed after all. */
  | { readonly type: 'resumed'; readonly key: string; readonly owner: string }
  | {
      readonly type: 'lost';
      readonly call: number;
      readonly key: string;
      readonly owner: string;
      readonly fencingToken: number;
      readonly error: LockLostError;
    }
  /** The service has opened its store, when its application started or by `open()`. Nothing is known of a connection yet. */
  | {
      readonly type: 'opened';
      readonly key: undefined;
      /** `memory`, `redis`, `quorum`. */
      readonly store: string;
      /** Starts each owner id of this service. */
      readonly clientId: string;
      /** Host and port, where the store has one. */
      readonly address: string | undefined;
    }
  /** The store cannot be reached, or can be again, whether or not anybody asks it for a lock. */
  | { readonly type: 'store'; readonly key: undefined; readonly store: string; readonly state: StoreState }
  /** Something works, and is probably not what was meant. */
  | { readonly type: 'warning'; readonly key: undefined; readonly message: string }
  /** Something failed that no caller waits for, such as the release of a finished call. */
  | {
      readonly type: 'error';
      readonly key: string | undefined;
      readonly during: string;
      readonly error: unknown;
    };
