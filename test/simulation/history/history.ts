import type { Kernel } from '../kernel/kernel.js';
import type { LockLostError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { ExpiredSession } from '../backends/backend.js';
import type { Loss } from './loss.js';

/** What a holder was told of its validity at one moment. */
export interface Sample {
  /** True time. */
  readonly at: number;
  /** In ms of its own clock. */
  readonly validForMs: number;
  /** True time at which its own clock has come so far, at the speed that it has now. */
  readonly until: number;
}

/** One call holds one key. A nested call that shares the hold of its flow is part of it. */
export interface HoldRecord {
  readonly call: string;
  readonly process: string;
  /** As the store names it. */
  readonly key: string;
  readonly claim: 'exclusive' | 'shared' | 'permits';
  readonly weight: number;
  readonly permits: number;
  /** Without it the watchdog renews. `keepFor` gives it one. */
  leaseMs?: number;
  /** The latest end of that fixed lease, by the monotonic clock of its process. `extend` and `keepFor` alone move it. */
  fixedUntilOwn?: number;
  /** It was extended, or that was tried: the lease may end sooner, too. */
  isExtended?: true;
  /** An extension got no reply. Until it can no longer be executed, the reply to a later one counts for the shorter of both. */
  isLengthUnsure?: boolean;
  /** Extensions of it that are under way, and the latest end of those that were under way together. */
  extending?: { count: number; latest: number; isAlone: boolean };
  /** From `from` on; a nested call that shares the hold may ask for more. */
  holdAtLeastMs?: number;
  /**
   * Its lease is shorter than its minimum hold: it was extended to less, or a nested call asked for more. So the lease does not keep the
   * key until a release that is lost or late has set the minimum hold.
   */
  isShortened?: boolean;
  readonly token: number;
  /** Of the store. */
  owner?: string;
  /** All times are true times, in ms. */
  readonly from: number;
  /** What the holder was told of its validity. */
  readonly samples: Sample[];
  endedAt?: number;
  end?: 'released' | 'lost' | 'crashed' | 'downgraded';
  /**
   * Its key stays locked until then, which is later than `endedAt` for the rest of several keys, one of which is lost, and for a hold
   * that was given back while nested calls share it: until their work has ended.
   */
  lockedUntil?: number;
  /**
   * The reader of its Observable has left, or a listener of its signal has given it back. A nested call that had begun to share the
   * lock goes on with it.
   */
  isLeft?: true;
  /**
   * The hold of a call around it, which it shares and which is over for that call alone: the reader has left, or another of its keys was
   * lost. All nested calls that share it name this one.
   */
  readonly sharedFrom?: HoldRecord;
  /** When the signal of its lock aborted, which of several keys tells of the first loss or takeover alone. */
  signalledAt?: number;
  /** It was told of a takeover, and the end of its grace by its monotonic clock and by its uptime. */
  toldAt?: number;
  /** By the name of who takes it over. A notice that is repeated, and comes late, leaves it the grace of the first one. */
  promisedUntilOwn?: Map<string, number>;
  graceUntilOwn?: number;
  graceUntilUptime?: number;
  /** Why it was lost, as its holder was told. */
  lostBy?: LockLostError['reason'];
}

export interface CallRecord {
  readonly call: string;
  readonly process: string;
  /** As the store names them. */
  readonly keys: readonly string[];
  /** Of its keys, which its service puts before them. */
  readonly prefix?: string;
  /** Which one of its process it calls. */
  readonly service?: number;
  readonly waitMs: number;
  readonly isFair?: boolean;
  /** Those of its keys of which it asks for permits, and not for a lock. */
  readonly ofPermits?: readonly string[];
  /** It asks for the whole key, as one that writes. */
  readonly isForWriter?: true;
  /** It takes its keys over, and leaves each holder so long. */
  readonly graceMs?: number;
  /** A candidate waits for its election, until it is closed. */
  readonly isStanding?: true;
  readonly askedAt: number;
  /** By the monotonic clock of its process. */
  readonly askedAtOwn: number;
  /** By the uptime of its machine, which counts sleep. */
  readonly askedAtUptime: number;
  /** It holds, or it was refused. */
  settledAt?: number;
  settledAtOwn?: number;
  settledAtUptime?: number;
  /** With a crash of its process nothing can be asked of it any more. */
  isCrashed?: boolean;
  crashedAt?: number;
  error?: unknown;
  /** It was told that the key is not free. */
  isRefused?: boolean;
  /** Who had the key when a call asked that asks once, by what the servers have decided. */
  readonly holdersThen?: readonly string[];
  /** It ended before it asked for a lock, or has said that it needs none. */
  needsNoLock?: true;
  /** It has returned, and its work is over. */
  isOver?: boolean;
  /** Locks of its service that its async flow held when it asked. */
  readonly under: readonly HoldRecord[];
}

/** The services of a process were told to close. */
export interface Drain {
  readonly process: string;
  readonly at: number;
  /** By its own clock, which may be fast, holders lose what they still hold from then on; `Infinity`: they lose nothing. */
  readonly graceUntil: number;
  readonly graceMs: number;
}

/** A process did not run its own code for a while, or one of its clocks was set. */
export interface Pause {
  readonly process: string;
  readonly kind: 'stop' | 'suspend' | 'clock' | 'block' | 'rate';
  readonly from: number;
  readonly to: number;
  /** Of a clock. */
  readonly setByMs?: number;
}

/** Something that a guarantee excuses, or whose effects are waited for. */
export interface Disturbance {
  readonly kind: string;
  readonly at: number;
  /** Until when it lasts. */
  readonly to: number;
  /** Of a force, which takes no other. */
  readonly key?: string;
  /** Of a force that names it, and takes the lock of no other. */
  readonly owner?: string;
  /** Of a `cut`: it keeps its process from all servers. */
  readonly isWhole?: true;
  /** Whose messages it keeps, or whose connections it breaks. Without one it is a fault of the servers, or a force. */
  readonly process?: string;
  /** Of a force: by then the servers have executed it, or never will. `Infinity` while nobody can tell. */
  executedBy?: number;
}

export interface Violation {
  readonly rule: string;
  readonly text: string;
  /** Of the lock that several hold at once, or whose tokens are out of order. */
  readonly key?: string;
}

/** All that happened in one run of a plan, as the checker judges it. */
export class History {
  readonly holds: HoldRecord[] = [];
  readonly calls: CallRecord[] = [];
  readonly pauses: Pause[] = [];
  readonly disturbances: Disturbance[] = [];
  readonly drains: Drain[] = [];
  /** What servers have lost. `undefined`: their back end does not tell. */
  losses: readonly Loss[] | undefined;
  /** When a grant was given back because too few replicas had it in time. */
  tooFewReplicas: readonly number[] = [];
  /** A server may bring the notice of a takeover later than its call waits for. */
  isToldLate = false;
  /** Of a whole request of the store: a quorum gives it twice the time of a node. */
  commandTimeoutMs = 0;
  /** A watchdog learns within so many ms what messages that were lost with their connection would have told it. */
  toldAfterGapMs = Infinity;
  /** Of clients that were not heard in time. */
  expired: readonly ExpiredSession[] = [];
  /** Found while the history ran. */
  readonly violations: Violation[] = [];
  readonly lines: { readonly at: number; readonly text: string }[] = [];
  /** The faults are over, and what comes must be calm. */
  calmFrom = Infinity;
  /** When a call last asked, got its lock, was refused or gave its lock back. */
  movedAt = 0;
  endedAt = 0;

  constructor(private readonly kernel: Kernel) {}

  say(text: string): void {
    this.kernel.note(text);
    this.lines.push({ at: this.kernel.now, text });
  }

  violate(rule: string, text: string): void {
    if (this.violations.some((it) => it.rule === rule && it.text === text)) return;
    this.violations.push({ rule, text });
    this.say(`BROKEN ${rule}: ${text}`);
  }
}
