import { AsyncResource } from 'node:async_hooks';
import { bindListeners } from '../../async/bound-listeners.js';

/**
 * Tells of a loss, or of a shutdown, by an AbortSignal. Each of its listeners runs in the async context in which it was added; those of an
 * `AbortSignal.any(…)` with it, in the one in which the signal was first asked for.
 */
export class LossController extends AsyncResource {
  readonly signal: AbortSignal;
  private readonly controller = new AbortController();

  constructor() {
    super('nestjs-distributed-lock.signal');
    this.signal = bindListeners(this.controller.signal);
  }

  /** From the second time on it does nothing. */
  abort(reason: Error): void {
    this.runInAsyncScope(() => this.controller.abort(reason));
  }
}
