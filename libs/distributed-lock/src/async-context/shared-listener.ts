/** A single listener on a source, which serves all callers. Node warns of a leak from the eleventh on, and takes longer for each. */
export class SharedListener {
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
