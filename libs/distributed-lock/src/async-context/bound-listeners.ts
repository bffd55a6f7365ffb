import { AsyncResource } from 'node:async_hooks';
import { Observable } from 'rxjs';

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
