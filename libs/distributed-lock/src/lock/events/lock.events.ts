import type { LockClient, StoreState } from '../../port/lock-store.js';
import type { LockLostError } from '../../port/lock.errors.js';

/** An event of a lock of this process. Times are in ms. `call` is the same number in all events of one caller and key. */
export type LockEvent =
  /** A call asks for a key that its flow does not hold. `acquired` or `abandoned` follows, `abandoned` maybe at once. */
  | { readonly type: 'asked'; readonly call: number; readonly key: string }
  /** A call has got its lock. */
  | {
      readonly type: 'acquired';
      readonly call: number;
      readonly key: string;
      readonly owner: string;
      readonly fencingToken: number;
      readonly waitedMs: number;
      /** `local`: by a hand-off of this process, or as a further reader of one lease, without a request to the store. */
      readonly by: 'store' | 'local';
    }
  /** A call has given its lock back. The store may not have confirmed that yet. */
  | {
      readonly type: 'released';
      readonly call: number;
      readonly key: string;
      readonly owner: string;
      readonly fencingToken: number;
      readonly heldMs: number;
    }
  /**
   * A call ended without the lock: `waitMs` is over, the key is not free, the call is aborted, or the store or a shutdown
   * refuses it.
   */
  | {
      readonly type: 'abandoned';
      readonly call: number;
      readonly key: string;
      readonly waitedMs: number;
      readonly error: unknown;
    }
  /**
   * Others begin to wait for a lock that this process holds: callers of this process, or other owners, of which the store
   * tells by a notification or by its answer to the next renewal. None for a lock that others wait for when it is acquired.
   */
  | { readonly type: 'contended'; readonly key: string; readonly owner: string }
  /**
   * Another call takes over a lock that this process holds (`onBusy: 'takeover'`). `lock.signal` aborts next, and the lock is lost in
   * `graceMs`, unless it is released before.
   */
  | {
      readonly type: 'takeover';
      readonly key: string;
      readonly owner: string;
      readonly graceMs: number;
      /** Who takes it over, for people to read. */
      readonly by: string;
    }
  /**
   * A call of this process has taken the lock by force: a takeover from a holder that had not released it within its grace, so that
   * `acquired` follows; or `forceRelease`.
   */
  | {
      readonly type: 'forced';
      readonly key: string;
      /** The owner that takes the lock over; `undefined` after `forceRelease`. */
      readonly owner: string | undefined;
      /** Who had it; `undefined` after a `forceRelease` that names no owner. */
      readonly holder: string | undefined;
      /** Who has released it, after `forceRelease`: the option `by`, or the line that has called. */
      readonly by?: string;
    }
  /** A renewal got no answer. The lease is valid for another `validForMs`. The watchdog tries again, unless the lease is fixed. */
  | {
      readonly type: 'suspended';
      readonly key: string;
      readonly owner: string;
      readonly validForMs: number;
      readonly error: Error;
    }
  /** A later renewal of a suspended lease succeeded. */
  | { readonly type: 'resumed'; readonly key: string; readonly owner: string }
  /** The lock of a call ended before its release. Its work may still run. */
  | {
      readonly type: 'lost';
      readonly call: number;
      readonly key: string;
      readonly owner: string;
      readonly fencingToken: number;
      readonly error: LockLostError;
    }
  /** This instance stands for election as the leader `name`, and does not lead yet. */
  | { readonly type: 'candidate'; readonly key: string; readonly name: string }
  /** This instance leads. `acquired` has come before. */
  | {
      readonly type: 'elected';
      readonly key: string;
      readonly name: string;
      readonly fencingToken: number;
      readonly since: Date;
    }
  /** This instance leads no longer. Its lock is given back when the work of the term has ended. */
  | {
      readonly type: 'demoted';
      readonly key: string;
      readonly name: string;
      readonly fencingToken: number;
      readonly ledMs: number;
      /** `failed`: an `@OnElected` method has thrown. */
      readonly reason: 'lost' | 'resigned' | 'failed' | 'shutdown';
    }
  /**
   * The service has opened its store, at the start of its application or by `open()`. It may not be connected. For PostgreSQL
   * the event follows the first attempt to connect, which finds out the schema of the lock table.
   */
  | {
      readonly type: 'opened';
      readonly key: undefined;
      /** `memory`, `redis`, `quorum`. */
      readonly store: string;
      /** The first part of each owner id of this service. */
      readonly clientId: string;
      /** Which process that is. */
      readonly client: LockClient;
      /** Where the locks are, as host and port, where the store has an address. */
      readonly address: string | undefined;
    }
  /** The store cannot be reached, or can be reached again. Does not depend on requests for locks. */
  | { readonly type: 'store'; readonly key: undefined; readonly store: string; readonly state: StoreState }
  /** A configuration that works, and is probably not meant. */
  | { readonly type: 'warning'; readonly key: undefined; readonly message: string }
  /** A failure that no caller waits for, such as that of the release of a finished call. */
  | {
      readonly type: 'error';
      readonly key: string | undefined;
      readonly during: string;
      readonly error: unknown;
    };
