export interface Emitter {
  on(event: string, listener: () => void): unknown;
  removeListener(event: string, listener: () => void): unknown;
}

/** By emitter. One GraphQL query runs many locked fields for one response, and Node warns of a leak from eleven listeners on. */
const shared = new WeakMap<Emitter, SharedListener>();

/** The one listener that serves all callers who wait for the end of an emitter. */
class SharedListener {
  private readonly listeners = new Set<() => void>();

  constructor(
    private readonly emitter: Emitter,
    private readonly events: readonly string[],
  ) {
    for (const event of events) emitter.on(event, this.tell);
  }

  /** @returns stops listening */
  add(listener: () => void): () => void {
    // A function of its own for each call, because one listener may be added twice.
    const own = (): void => listener();
    this.listeners.add(own);
    return () => {
      if (this.listeners.delete(own) && this.listeners.size === 0) this.end();
    };
  }

  private readonly tell = (): void => {
    this.end();
    for (const listener of this.listeners) listener();
  };

  private end(): void {
    if (shared.get(this.emitter) !== this) return;
    shared.delete(this.emitter);
    for (const event of this.events) this.emitter.removeListener(event, this.tell);
  }
}

/**
 * Calls `listener` at the first of these events.
 *
 * @param events the same ones for all listeners of an emitter
 * @returns stops listening
 */
export function onEndOf(emitter: Emitter, events: readonly string[], listener: () => void): () => void {
  let it = shared.get(emitter);
  if (!it) shared.set(emitter, (it = new SharedListener(emitter, events)));
  return it.add(listener);
}
