import { AsyncResource } from 'node:async_hooks';
import { type EventEmitter, setMaxListeners } from 'node:events';

/**
 * One listener on a source that serves all callers. From the eleventh listener on, Node warns of a leak and each further one takes
 * longer to add.
 */
class SharedListener {
  private readonly listeners = new Set<() => void>();

  constructor(private readonly source: Source) {}

  /** Adds a listener. @returns a function that removes it */
  add(listener: () => void): () => void {
    // Wrap the listener in a new function, because the same listener may be added twice and each is removed on its own.
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

/** How to start and stop listening to the source. */
interface Source {
  on(tell: () => void): void;
  off(tell: () => void): void;
}

type Emitter = Pick<EventEmitter, 'on' | 'removeListener'>;

const byEmitter = new WeakMap<Emitter, SharedListener>();

/**
 * Calls `listener` at the first of these events. All listeners of an emitter share one, because one GraphQL query may run many locked
 * fields for one response.
 *
 * @param events the same ones for all listeners of an emitter
 * @returns a function that stops listening
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

const bySignal = new WeakMap<AbortSignal, SharedListener>();

/**
 * Calls `listener` when `signal` aborts. A signal with a method `onAbort` notifies its listeners itself, which takes less memory.
 *
 * @returns a function that stops listening
 */
export function onAbort(
  signal: AbortSignal | { onAbort(listener: () => void): () => void },
  listener: () => void,
): () => void {
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

/** Settles as `work` does, but rejects with the signal's reason as soon as the signal aborts. A later rejection of `work` is ignored. */
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
 * Makes each listener of `signal` run in the async context in which it was added. An EventTarget would run it in the context of whoever
 * dispatches the event.
 */
function bindListeners(signal: AbortSignal): AbortSignal {
  /** The bound functions by listener, then by event type and phase, because an EventTarget tells registrations apart by these. */
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
    // Forget the bound function, because the caller may add the listener again in another context.
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

/**
 * An AbortController whose signal runs each listener in the async context in which it was added. Listeners of an `AbortSignal.any(…)` with
 * that signal run in the context in which the controller was created.
 */
export class BoundController extends AsyncResource {
  private readonly controller = new AbortController();
  readonly signal = bindListeners(this.controller.signal);

  constructor() {
    super('nestjs-distributed-lock.signal');
    try {
      // Node warns of a leak at the 11th listener, but work under a lock may add a listener for each of its requests.
      setMaxListeners(0, this.signal);
    } catch {
      // `setMaxListeners` throws for a signal of jsdom, which applications use in tests. Such a signal has no limit.
    }
  }

  /** Aborts the signal. A second call does nothing. */
  abort(reason: Error): void {
    this.runInAsyncScope(() => this.controller.abort(reason));
  }
}
