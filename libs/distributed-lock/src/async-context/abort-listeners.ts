/** Has only that member of an AbortSignal which `onAbort` uses. */
interface Lean {
  onAbort(listener: () => void): () => void;
}

const bySignal = new WeakMap<AbortSignal, AbortListeners>();

/**
 * Calls `listener` when `signal` aborts. Puts a single listener on each signal, because Node warns of a leak from the
 * eleventh on, and takes longer for each.
 *
 * @returns stops listening
 */
export function onAbort(signal: AbortSignal | Lean, listener: () => void): () => void {
  if ('onAbort' in signal) return signal.onAbort(listener);
  let listeners = bySignal.get(signal);
  if (!listeners) bySignal.set(signal, (listeners = new AbortListeners(signal)));
  return listeners.add(listener);
}

class AbortListeners {
  private readonly listeners = new Set<() => void>();

  constructor(private readonly signal: AbortSignal) {}

  add(listener: () => void): () => void {
    if (this.listeners.size === 0) this.signal.addEventListener('abort', this.tell, { once: true });
    this.listeners.add(listener);
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size === 0) this.signal.removeEventListener('abort', this.tell);
    };
  }

  private readonly tell = (): void => {
    for (const listener of this.listeners) listener();
  };
}
