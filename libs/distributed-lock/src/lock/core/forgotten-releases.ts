import type { LockRuntime } from './lock-runtime.js';

/** How long a lock of `acquire()` may be held while callers of this process wait for it, before a warning names the line that acquired it. */
const FORGOTTEN_AFTER_MS = 1000;

/**
 * Warns of each line of code whose `acquire()` keeps other callers of its process waiting for long, mostly because a release was forgotten.
 * Each line is named only once, because a lock may also be held for long on purpose.
 */
export class ForgottenReleases {
  private readonly named = new Set<string>();
  private cancel: (() => void) | undefined;

  constructor(private readonly runtime: LockRuntime) {}

  /** Called when a caller waits for a lock that `acquire()` has taken. One timer serves all such locks. */
  onWaiter(): void {
    this.cancel ??= this.runtime.naming.after(FORGOTTEN_AFTER_MS, () => this.onTime());
  }

  stop(): void {
    this.cancel?.();
  }

  private onTime(): void {
    this.cancel = undefined;
    for (const { owner, acquireSite, acquiredAt } of this.runtime.owners.allHolds()) {
      if (!acquireSite || owner.queue.size === 0) continue;
      const line = acquireSite.line ?? 'acquire()';
      if (this.named.has(line)) continue;
      const heldMs = owner.now - acquiredAt;
      if (heldMs < FORGOTTEN_AFTER_MS) {
        this.onWaiter();
        continue;
      }
      this.named.add(line);
      const message = `Callers of this process wait for "${owner.key}", which it has held for ${Math.round(heldMs)} ms by ${line}. Was that lock never released? Use withLock or await using. If it is held so long on purpose, ignore this: it is said once.`;
      this.runtime.events.warn(message);
    }
  }
}
