import type { LockRuntime } from './lock-runtime.js';
import type { CallSite } from '../request/call-site.js';

/** The line of an `acquire()` is named when its lock has been held for this long while another caller of the process waits. */
export const FORGOTTEN_AFTER_MS = 1000;

/**
 * Names each line of code whose lock of `acquire()` keeps other callers of its process waiting: in development that is mostly a
 * forgotten release. A line is named once, because a lock may also be held for long on purpose.
 */
export class ForgottenReleases {
  private readonly named = new Set<string>();
  private cancel: (() => void) | undefined;

  constructor(private readonly runtime: LockRuntime) {}

  /** A caller waits for a lock that `acquire()` has at `site`. One timer serves all of them. */
  onWaiter(): void {
    this.cancel ??= this.runtime.naming.after(FORGOTTEN_AFTER_MS, () => this.onTime());
  }

  stop(): void {
    this.cancel?.();
  }

  private onTime(): void {
    this.cancel = undefined;
    for (const { key, heldMs, site } of this.runtime.owners.heldByForgottenAcquire()) {
      const line = site.line ?? 'acquire()';
      if (this.named.has(line)) continue;
      if (heldMs < FORGOTTEN_AFTER_MS) this.onWaiter();
      else this.name(key, heldMs, line);
    }
  }

  private name(key: string, heldMs: number, line: string): void {
    this.named.add(line);
    this.runtime.events.warn(
      `Callers of this process wait for "${key}", which it has held for ${Math.round(heldMs)} ms by ${line}. Was that lock never released? Use withLock or await using. If it is held so long on purpose, ignore this: it is said once.`,
    );
  }
}

/** A hold of `acquire()` for which a caller of its process waits. */
export interface ForgottenHold {
  readonly key: string;
  readonly heldMs: number;
  readonly site: CallSite;
}
