import { SharedListener } from './shared-listener.js';

/** Stands in for an AbortSignal in `onAbort`, and tells its listeners itself. Implemented by `WaitCancellation`. */
interface Lean {
  onAbort(listener: () => void): () => void;
}

const bySignal = new WeakMap<AbortSignal, SharedListener>();

/** Calls `listener` when `signal` aborts. @returns stops listening */
export function onAbort(signal: AbortSignal | Lean, listener: () => void): () => void {
  if ('onAbort' in signal) return signal.onAbort(listener);
  let shared = bySignal.get(signal);
  if (!shared) {
    shared = new SharedListener({
      on: (tell) => signal.addEventListener('abort', tell, { once: true }),
      off: (tell) => signal.removeEventListener('abort', tell),
    });
    bySignal.set(signal, shared);
  }
  return shared.add(listener);
}

/** Settles as `work` does, or rejects with the signal's reason as soon as the signal aborts. `work` may reject after that. */
export async function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  let stopListening = (): void => undefined;
  const aborted = new Promise<never>((_, reject) => {
    const onAborted = (): void => reject(signal.reason as Error);
    if (signal.aborted) onAborted();
    else stopListening = onAbort(signal, onAborted);
  });
  return Promise.race([work, aborted]).finally(() => stopListening());
}
