/** What is asked of a signal here, and can be had for less. */
interface Lean {
  onAbort(listener: () => void): () => void;
}

const listeners = new WeakMap<AbortSignal, Listeners>();

/**
 * Calls `listener` when `signal` aborts. However many do so by one signal, it has one listener: Node warns of a leak
 * when they are eleven, and takes the longer for each the more there are.
 *
 * @returns stops listening
 */
export function onAbort(signal: AbortSignal | Lean, listener: () => void): () => void {
  if ('onAbort' in signal) return signal.onAbort(listener);
  let those = listeners.get(signal);
  if (!those) listeners.set(signal, (those = new Listeners(signal)));
  return those.add(listener);
}

class Listeners {
  private readonly those = new Set<() => void>();

  constructor(private readonly signal: AbortSignal) {}

  add(listener: () => void): () => void {
    if (this.those.size === 0) this.signal.addEventListener('abort', this.onAbort, { once: true });
    this.those.add(listener);
    return () => {
      this.those.delete(listener);
      if (this.those.size === 0) this.signal.removeEventListener('abort', this.onAbort);
    };
  }

  private readonly onAbort = (): void => {
    for (const listener of this.those) listener();
  };
}
