import { onAbort } from '../async-context/abort-listeners.js';

/**
 * Lets one call leave the queue while it waits.
 *
 * Has only those members of an AbortSignal that a wait uses. An AbortController takes 5 µs to make and to listen to on
 * Node 20, on every request, although hardly any request leaves (`npm run bench -- --only http`).
 */
export class Departure {
  aborted = false;
  reason: unknown;
  private isOver = false;
  private readonly listeners = new Set<() => void>();
  private readonly undos: (() => void)[] = [];

  /** Ends the wait. Does nothing after the wait. @param reason default: that of an AbortController */
  leave(reason?: unknown): void {
    if (this.isOver) return;
    this.end();
    this.aborted = true;
    this.reason = reason ?? new DOMException('This operation was aborted', 'AbortError');
    for (const listener of this.listeners) listener();
  }

  /** Leaves when `other` aborts, for its reason. */
  follow(other: AbortSignal): void {
    if (other.aborted) return this.leave(other.reason);
    this.whenOver(onAbort(other, () => this.leave(other.reason)));
  }

  /** Calls `undo` at the end of the wait, or at once after it. */
  whenOver(undo: () => void): void {
    if (this.isOver) undo();
    else this.undos.push(undo);
  }

  /** The wait is over, with the lock or without. */
  end(): void {
    this.isOver = true;
    for (const undo of this.undos.splice(0)) undo();
  }

  onAbort(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => {
      this.listeners.delete(listener);
    };
  }
}
