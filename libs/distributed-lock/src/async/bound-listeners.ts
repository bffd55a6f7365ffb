import { AsyncResource } from 'node:async_hooks';

type Listener = ((event: Event) => void) | { handleEvent(event: Event): void } | null;
type Bound = (event: Event) => void;
type Change = (type: string, listener: Listener, options?: object | boolean) => void;

/**
 * Makes each listener of `signal` run in the async context in which it is added. An EventTarget runs them in that of
 * whoever dispatches the event.
 */
export function bindListeners(signal: AbortSignal): AbortSignal {
  /** As an EventTarget tells registrations apart: by listener, type and phase. */
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
    // It may be added again elsewhere.
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
  const context = new AsyncResource('nestjs-distributed-lock.signal');
  return (event) =>
    typeof listener === 'function'
      ? context.runInAsyncScope(listener, signal, event)
      : context.runInAsyncScope(() => listener.handleEvent(event));
}
