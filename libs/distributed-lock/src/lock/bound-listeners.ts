import { AsyncResource } from 'node:async_hooks';

type Listener = ((event: Event) => void) | { handleEvent(event: Event): void } | null;
type Change = (type: string, listener: Listener, options?: object | boolean) => void;

/**
 * Makes each listener of `signal` run in the async context in which it is added. An EventTarget runs them in that of
 * whoever dispatches the event.
 */
export function bindListeners(signal: AbortSignal): AbortSignal {
  const bound = new WeakMap<object, (event: Event) => void>();
  const add = signal.addEventListener.bind(signal) as Change;
  const remove = signal.removeEventListener.bind(signal) as Change;
  const addEventListener: Change = (type, listener, options) => {
    if (listener && !bound.has(listener)) bound.set(listener, bind(listener, signal));
    add(type, boundTo(listener), options);
  };
  const removeEventListener: Change = (type, listener, options) => {
    remove(type, boundTo(listener), options);
    // It may be added again elsewhere.
    if (listener) bound.delete(listener);
  };
  const boundTo = (listener: Listener): Listener => (listener && bound.get(listener)) ?? listener;
  return Object.defineProperties(signal, {
    addEventListener: { value: addEventListener },
    removeEventListener: { value: removeEventListener },
  });
}

function bind(listener: NonNullable<Listener>, signal: AbortSignal): (event: Event) => void {
  const context = new AsyncResource('nestjs-distributed-lock.signal');
  return (event) =>
    typeof listener === 'function'
      ? context.runInAsyncScope(listener, signal, event)
      : context.runInAsyncScope(() => listener.handleEvent(event));
}
