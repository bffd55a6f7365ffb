import { AsyncResource } from 'node:async_hooks';
import { setMaxListeners } from 'node:events';
import { bindListeners } from '../../async-context/bound-listeners.js';

/**
 * Aborts a signal on a loss, a takeover or a shutdown. Each listener of the signal runs in the async context in which it was
 * added. Listeners of an `AbortSignal.any(…)` with it run in the context in which the signal was first asked for.
 */
export class LossController extends AsyncResource {
  private readonly controller = new AbortController();
  readonly signal = bindListeners(this.controller.signal);

  constructor() {
    super('nestjs-distributed-lock.signal');
    allowManyListeners(this.signal);
  }

  /** A second call does nothing. */
  abort(reason: Error): void {
    this.runInAsyncScope(() => this.controller.abort(reason));
  }
}

/** Node warns of a leak at the 11th listener. Work under a lock may add one for each of its requests. */
function allowManyListeners(signal: AbortSignal): void {
  try {
    setMaxListeners(0, signal);
  } catch {
    // A signal of jsdom, as in the tests of an application, has no limit.
  }
}
