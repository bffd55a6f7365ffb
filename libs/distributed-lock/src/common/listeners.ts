import { AsyncResource } from 'node:async_hooks';
import { Observable } from 'rxjs';

/** A single listener on a source, which serves all callers. Node warns of a leak from the eleventh on, and takes longer for each. */
class SharedListener {
  private readonly listeners = new Set<() => void>();

  constructor(private readonly source: Source) {}

  /** @returns stops listening */
  add(listener: () => void): () => void {
    // A function of its own for each call, because one listener may be added twice.
    const own = (): void => listener();
    if (this.listeners.size === 0) this.source.on(this.tell);
    this.listeners.add(own);
    return () => {
      if (this.listeners.delete(own) && this.listeners.size === 0) this.source.off(this.tell);
    };
  }

  private readonly tell = (): void => {
    this.source.off(this.tell);
    for (const listener of this.listeners) listener();
  };
}

/** Starts to listen, and stops. */
interface Source {
  on(tell: () => void): void;
  off(tell: () => void): void;
}

export interface Emitter {
  on(event: string, listener: () => void): unknown;
  removeListener(event: string, listener: () => void): unknown;
}

const byEmitter = new WeakMap<Emitter, SharedListener>();

/**
 * Calls `listener` at the first of these events. One GraphQL query runs many locked fields for one response.
 *
 * @param events the same ones for all listeners of an emitter
 * @returns stops listening
 */
export function onEndOf(emitter: Emitter, events: readonly string[], listener: () => void): () => void {
  let shared = byEmitter.get(emitter);
  if (!shared) {
    shared = new SharedListener({
      on: (tell) => events.forEach((event) => emitter.on(event, tell)),
      off: (tell) => events.forEach((event) => emitter.removeListener(event, tell)),
    });
    byEmitter.set(emitter, shared);
  }
  return shared.add(listener);
}

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

type Listener = ((event: Event) => void) | { handleEvent(event: Event): void } | null;
type Bound = (event: Event) => void;
type Change = (type: string, listener: Listener, options?: object | boolean) => void;

/**
 * Makes each listener of `signal` run in the async context in which it is added. An EventTarget runs listeners in the
 * context of the dispatch.
 */
export function bindListeners(signal: AbortSignal): AbortSignal {
  /** The bound listeners by listener, then by type and phase, because an EventTarget tells registrations apart by these. */
  const bound = new WeakMap<object, Map<string, Bound>>();
  const add = signal.addEventListener.bind(signal) as Change;
  const remove = signal.removeEventListener.bind(signal) as Change;
  const addEventListener: Change = (type, listener, options) => {
    if (!listener) return add(type, listener, options);
    const registrations = bound.get(listener) ?? new Map<string, Bound>();
    const name = registration(type, options);
    const own = registrations.get(name) ?? bind(listener, signal);
    bound.set(listener, registrations.set(name, own));
    add(type, own, options);
  };
  const removeEventListener: Change = (type, listener, options) => {
    const registrations = listener && bound.get(listener);
    const name = registration(type, options);
    remove(type, registrations?.get(name) ?? listener, options);
    // The caller may add the listener again in another context.
    registrations?.delete(name);
  };
  return Object.defineProperties(signal, {
    addEventListener: { value: addEventListener },
    removeEventListener: { value: removeEventListener },
  });
}

function registration(type: string, options: Parameters<Change>[2]): string {
  const isCapturing = typeof options === 'object' ? 'capture' in options && options.capture : options;
  return `${type} ${Boolean(isCapturing)}`;
}

function bind(listener: NonNullable<Listener>, signal: AbortSignal): Bound {
  return AsyncResource.bind((event: Event) =>
    typeof listener === 'function' ? Reflect.apply(listener, signal, [event]) : listener.handleEvent(event),
  );
}

/** The events of a source. Each subscriber gets them in the async context in which it has subscribed. */
export function bindEvents<T>(source: Observable<T>): Observable<T> {
  return new Observable((out) => {
    const context = new AsyncResource('nestjs-distributed-lock.events');
    return source.subscribe({
      next: (value) => context.runInAsyncScope(() => out.next(value)),
      error: (error) => context.runInAsyncScope(() => out.error(error)),
      complete: () => context.runInAsyncScope(() => out.complete()),
    });
  });
}
