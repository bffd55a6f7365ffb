import type { OncePlan } from './once.js';
import type { StoreOptions } from '../backends/backend.js';
import type { Latency } from '../network/network.js';
import type { CandidatePlan, CANDIDATE_ACTS } from './candidate.js';
import type { SettingsPlan } from './settings.js';

/** All that a history depends on, beside the code. JSON, so that it can be kept, shortened and run again. */
export interface Plan {
  readonly store: string;
  /** Decides what the plan does not: delays, jitter, ids. */
  readonly seed: string;
  readonly watchdogTimeoutMs: number;
  readonly storeOptions: StoreOptions;
  readonly latency: Latency;
  /** Speeds of the servers' clocks; default 1 each. */
  readonly serverRates?: readonly number[];
  readonly processes: readonly ProcessPlan[];
  readonly calls: readonly CallPlan[];
  readonly faults: readonly FaultPlan[];
  /** No scenes are played after the faults: they take longer than most histories. */
  readonly calm?: 'without scenes';
  readonly candidates?: readonly CandidatePlan[];
  readonly onces?: readonly OncePlan[];
}

export interface ProcessPlan {
  /** Speed of its monotonic clock. */
  readonly rate: number;
  /** Its time of day drifts as that clock does: no time server keeps it exact. */
  readonly timeOfDayDrifts?: true;
  /** It tells the store who it is, as services do unless told otherwise. */
  readonly isNamed?: true;
  /** What its time of day is ahead. */
  readonly offsetMs: number;
  /** Each has a client of its own. */
  readonly services: number;
  /** So much longer its messages are under way than those of the others; default 0. */
  readonly farMs?: number;
  /** What a listener of `events$` does at some of the events of each service. */
  readonly listener?: 'throws' | 'blocks' | 'calls';
  readonly settings?: SettingsPlan;
}

/** As `CallOptions`; JSON has no `Infinity`. */
export interface CallOptionsPlan {
  readonly waitMs?: number | 'Infinity';
  readonly maxWaiting?: number;
  readonly leaseMs?: number;
  readonly mode?: 'exclusive' | 'shared';
  readonly permits?: number;
  readonly weight?: number;
  readonly fair?: boolean;
  readonly holdAtLeastMs?: number;
  /** It takes the lock over, and leaves the holder `graceMs`. */
  readonly onBusy?: 'takeover';
  readonly graceMs?: number;
  /** Of `withLock` and `stream` alone. */
  readonly onLost?: 'ignore';
}

/** How one key is asked for. */
export type ClaimPlan = Pick<CallOptionsPlan, 'mode' | 'permits' | 'weight'>;

export interface Asking {
  readonly service: number;
  /**
   * A `handler` has `@Locked`, and is called through its interceptor, and a `method` as other code calls it. `unshared` acquires and
   * works outside of `lock.run`, so that no nested call shares the lock.
   */
  readonly how: 'withLock' | 'acquire' | 'tryAcquire' | 'unshared' | 'stream' | 'handler' | 'method';
  readonly keys: readonly string[];
  /** Of keys with a claim of their own, by key; of the others the options say it. Not with `locked` over a `list`. */
  readonly claims?: Readonly<Record<string, ClaimPlan>>;
  readonly options: CallOptionsPlan;
  /** Its signal aborts so long after the call. */
  readonly abortAfterMs?: number;
  /** Of a `stream`; without it a generator that is left at its last item. */
  readonly stream?: StreamPlan;
  /** Of a `handler` or a `method`; without it an async one, whose keys a function gives. */
  readonly locked?: LockedPlan;
  readonly work: readonly Step[];
  /** It uses its lock once more after its release. */
  readonly isUsedAfterwards?: true;
  /** Nobody asks it whether it believes in its lock while it works, which might notice a loss: its signal alone tells it. */
  readonly isUnasked?: true;
  /** What a listener of `lock.signal` does beside others. Of `withLock`, `acquire` and `unshared`. */
  readonly onAbort?: 'blocks' | 'calls' | 'releases';
}

/** Each step of the work gives one item. */
export interface StreamPlan {
  readonly kind: 'generator' | 'web stream' | 'readable';
  /** It is read to its end, left at its first item, or ended before any step of it has run. */
  readonly reader: 'reads' | 'leaves' | 'drops';
}

/** How a method with `@Locked` is written. */
export interface LockedPlan {
  /** `templates` render each key from an argument, and one over a `list` all of them. */
  readonly keys: 'function' | 'templates' | 'list';
  /** A promise, a stream of which each step of the work gives one item, or it throws before anything else. */
  readonly gives: 'promise' | 'throws' | 'observable' | 'generator';
  /** Of a stream; default: it is read to its end. */
  readonly reader?: StreamPlan['reader'];
  /** `skip` of a `method` alone. */
  readonly onBusy?: 'skip' | 'answer';
  /** Its `when` says that it needs no lock. */
  readonly isFree?: true;
}

export interface CallPlan extends Asking {
  readonly process: number;
  readonly atMs: number;
}

/** What happens under the lock. */
export type Step =
  | { readonly do: 'sleep' | 'block'; readonly ms: number }
  | ExtendStep
  /** Works for so long, or until `lock.signal` aborts, or until others wait for the lock. */
  | { readonly do: 'until lost' | 'until contended'; readonly ms: number }
  /** `inspect` and `list` ask the store who holds, `held` asks the service. */
  | { readonly do: 'downgrade' | 'throw' | 'inspect' | 'list' | 'held' }
  | PassStep
  /** A call in the async flow that holds the lock. The work waits for it at once, or for one `beside` it at its end. */
  | { readonly do: 'nested' | 'beside'; readonly call: Asking };

/** Sets the end of a fixed lease, or gives the lock a fixed lease in place of the watchdog. */
export interface ExtendStep {
  readonly do: 'extend' | 'keep for';
  readonly ms: number;
}

/** It detaches its lock, the last that it does, and these processes attach it, each of them so much later, for so long a work. */
export interface PassStep {
  readonly do: 'pass on';
  readonly to: readonly number[];
  /** How long the detached lock keeps the key. */
  readonly holdAtLeastMs: number;
  readonly afterMs: number;
  readonly workMs: number;
}

export type Who = number | 'holder' | 'waiter' | 'anyone';

/** What a call does: it asks, gets its lock, or gives it back. */
export type CallEvent = 'asked' | 'acquired' | 'ended';

/** What starts a fault. */
export type Trigger =
  | { readonly atMs: number }
  /** The n-th message of a kind that this process sends or is sent; `any request` and `any reply` are kinds, too. */
  | {
      readonly message: string;
      readonly nth: number;
      readonly of: Who;
      /** Counted from the moment when this process does that for the n-th time, and only its own messages. */
      readonly since?: { readonly event: CallEvent; readonly nth: number; readonly key?: string };
    }
  /** The n-th time that a call of this process does that, for this key if one is named. */
  | { readonly event: CallEvent; readonly nth: number; readonly of: Who; readonly key?: string };

export type Act =
  /** What becomes of the message of the trigger. */
  | { readonly do: 'lose' | 'break' | 'break after' }
  | { readonly do: 'hold'; readonly ms: number }
  /** To a process. */
  | { readonly do: 'stop' | 'suspend' | 'clock' | 'block'; readonly who: Who; readonly ms: number }
  /** To its connections: all of them, or those to one server only. */
  | { readonly do: 'cut'; readonly who: Who; readonly ms: number; readonly only?: number }
  /** With a `kind`, those alone on which a request of this kind was sent. */
  | { readonly do: 'reset'; readonly who: Who; readonly only?: number; readonly kind?: string }
  /** It makes one call more. */
  | { readonly do: 'call'; readonly who: Who; readonly call: Asking }
  | { readonly do: 'crash' | 'drain' | 'close'; readonly who: Who }
  /** To its candidates. */
  | { readonly do: (typeof CANDIDATE_ACTS)[number]; readonly who: Who }
  /** Its first call that waits and has a signal, so one with `abortAfterMs`, is aborted. */
  | { readonly do: 'abort'; readonly who: Who }
  /** It crashes, or it is told to close and replaced by another version. So much later another process starts, and makes a call. */
  | { readonly do: 'restart' | 'replace'; readonly who: Who; readonly ms: number; readonly call: Asking }
  | { readonly do: 'rate'; readonly who: Who; readonly rate: number }
  /** It takes the key by force, from the last one to get it if it `isNamed`, otherwise from all that hold it. */
  | { readonly do: 'force'; readonly who: Who; readonly key: string; readonly isNamed?: true }
  /** To a server. */
  | {
      readonly do: 'stop server' | 'crash server' | 'server clock' | 'refuse';
      readonly server: number;
      readonly ms: number;
    }
  /** What only this kind of server does, one of `serverEvents` of its back end. */
  | { readonly do: 'server event'; readonly server: number; readonly event: string }
  | { readonly do: 'forget'; readonly how: 'empty' | 'stale' };

export interface FaultPlan {
  readonly when: Trigger;
  /** After the trigger; default: at once. */
  readonly afterMs?: number;
  readonly act: Act;
}
