import type { LockClient, StoreState } from '../../port/lock-store.js';
import type { LockLostError } from '../../port/lock.errors.js';

/** An event of a lock of this process. Times are in ms. All events of one caller and key have the same number `call`. */
export type LockEvent =
  /** A call asks for a key that its flow does not hold. `acquired` or `abandoned` follows, `abandoned` possibly at once. */
  | { readonly type: 'asked'; readonly call: number; readonly key: string }
  /** A call has acquired its lock. */
  | {
      readonly type: 'acquired';
      readonly call: number;
      readonly key: string;
      readonly owner: string;
      readonly fencingToken: number;
      readonly waitedMs: number;
      /** `local`: without a request to the store, by a hand-off in this process or as a further reader of the same lease. */
      readonly by: 'store' | 'local';
    }
  /** A call has released or detached its lock. The store may not have confirmed that yet. */
  | {
      readonly type: 'released';
      readonly call: number;
      readonly key: string;
      readonly owner: string;
      readonly fencingToken: number;
      readonly heldMs: number;
    }
  /**
   * A call ended without the lock: its `waitMs` is over, the key is not free, its signal aborted, or the store or a shutdown refused
   * it.
   */
  | {
      readonly type: 'abandoned';
      readonly call: number;
      readonly key: string;
      readonly waitedMs: number;
      readonly error: unknown;
    }
  /**
   * Others begin to wait for a lock that this process holds: callers of this process, or other owners. The store reports other owners
   * by a notification or in the reply to the next renewal. Not emitted if others already waited when the lock was acquired.
   */
  | { readonly type: 'contended'; readonly key: string; readonly owner: string }
  /**
   * Another call takes over a lock that this process holds (`onBusy: 'takeover'`). `lock.signal` aborts next. The lock is lost in
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
   * A call of this process has taken the lock by force: a takeover, because the holder had not released within its grace, or
   * `forceRelease`. The `acquired` of a takeover may come before or after it.
   */
  | {
      readonly type: 'forced';
      readonly key: string;
      /** The owner that takes the lock over; `undefined` for `forceRelease`. */
      readonly owner: string | undefined;
      /** The owner that had it; `undefined` for a `forceRelease` that names no owner. */
      readonly holder: string | undefined;
      /** Who called `forceRelease`: the option `by`, or the line that called. Absent for a takeover. */
      readonly by?: string;
    }
  /** A renewal got no reply. The lease is valid for another `validForMs`. The watchdog tries again, unless the lease is fixed. */
  | {
      readonly type: 'suspended';
      readonly key: string;
      readonly owner: string;
      readonly validForMs: number;
      readonly error: Error;
    }
  /** A later renewal of a suspended lease succeeded. */
  | { readonly type: 'resumed'; readonly key: string; readonly owner: string }
  /** A call lost its lock before it released. Its work may still run. */
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
  /** This instance leads. `acquired` came before. */
  | {
      readonly type: 'elected';
      readonly key: string;
      readonly name: string;
      readonly fencingToken: number;
      readonly since: Date;
    }
  /** This instance no longer leads. It releases its lock when the work of the term has ended. */
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
   * The service has opened its store, at the start of its application or by `open()`. The store may not be connected yet. On PostgreSQL
   * the event comes after the first attempt to connect, which finds out the schema of the lock table.
   */
  | {
      readonly type: 'opened';
      readonly key: undefined;
      /** `memory`, `redis`, `quorum` or the name of another store. */
      readonly store: string;
      /** The first part of each owner id of this service. */
      readonly clientId: string;
      /** Names the process of this service. */
      readonly client: LockClient;
      /** Where the locks are: host and port, if the store has an address. */
      readonly address: string | undefined;
    }
  /** The store cannot be reached, or can be reached again. Does not depend on requests for locks. */
  | { readonly type: 'store'; readonly key: undefined; readonly store: string; readonly state: StoreState }
  /** A configuration works, but is probably a mistake. */
  | { readonly type: 'warning'; readonly key: undefined; readonly message: string }
  /** Something failed that no caller waits for, such as the release of a finished call. */
  | {
      readonly type: 'error';
      readonly key: string | undefined;
      readonly during: string;
      readonly error: unknown;
    };
