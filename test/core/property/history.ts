import type { Lock } from '../../../libs/distributed-lock/src/lock/lock.js';

/** The accesses that a guarded resource sees. Throws at the first that a correct lock never lets happen. */
export class History {
  private readonly believers = new Map<Lock, string>();
  private readonly largestWritten = new Map<string, number>();
  private readonly largestAcquired = new Map<string, number>();
  private readonly acquired = new Set<string>();
  /** The findings, for places that cannot throw. */
  readonly findings: string[] = [];

  /**
   * @param strict nobody takes locks by force: then no two ever believe in the same lock
   * @param isStopped such a process does nothing, so that nobody asks it what it believes
   */
  constructor(
    private readonly strict: boolean,
    private readonly isStopped: (process: string) => boolean = () => false,
  ) {}

  onAcquired(key: string, token: number): void {
    this.demand(!this.acquired.has(`${key} ${token}`), `token ${token} of "${key}" was given out twice`);
    this.acquired.add(`${key} ${token}`);
    if (!this.strict) return;
    const others = this.holdersOf(key);
    this.demand(
      others.length === 0,
      `"${key}" is granted as ${token} while ${tokensOf(others, key)} is believed in`,
    );
    const before = this.largestAcquired.get(key) ?? 0;
    this.demand(token > before, `"${key}" is granted as ${token} after ${before}`);
    this.largestAcquired.set(key, token);
  }

  onLock(lock: Lock, process: string): void {
    this.believers.set(lock, process);
  }

  onReleased(lock: Lock): void {
    this.believers.delete(lock);
  }

  onCrash(process: string): void {
    for (const [lock, owner] of this.believers) if (owner === process) this.believers.delete(lock);
  }

  /** Everybody who believes to hold a lock writes under it, with its token. */
  writeAll(): void {
    for (const lock of this.believers.keys()) {
      for (const key of lock.keys) {
        if (!this.believes(lock)) continue;
        const token = lock.tokenOf(key);
        const largest = this.largestWritten.get(key) ?? 0;
        if (this.strict) {
          this.demand(token >= largest, `"${key}" is written under ${token} after ${largest}`);
          this.demand(this.holdersOf(key).length === 1, `"${key}" has several who believe to hold it`);
        }
        this.largestWritten.set(key, Math.max(largest, token));
      }
    }
  }

  private holdersOf(key: string): Lock[] {
    return [...this.believers.keys()].filter((lock) => lock.keys.includes(key) && this.believes(lock));
  }

  private believes(lock: Lock): boolean {
    return !this.isStopped(this.believers.get(lock) ?? '') && believes(lock);
  }

  private demand(isSo: boolean, otherwise: string): void {
    if (!isSo) this.findings.push(otherwise);
  }
}

function believes(lock: Lock): boolean {
  try {
    lock.assertHeld();
    return true;
  } catch {
    return false;
  }
}

function tokensOf(locks: readonly Lock[], key: string): string {
  return locks.map((lock) => lock.tokenOf(key)).join(', ');
}
