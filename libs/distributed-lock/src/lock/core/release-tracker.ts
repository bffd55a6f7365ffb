import type { Clock } from '../../time/clock.js';
import { Delays } from '../../time/delays.js';
import { detached } from '../../async-context/detached.js';
import { inBackground, type NeverRejects } from '../../async-context/in-background.js';
import type { LockEvent } from '../events/lock.events.js';
import type { LockError } from '../../port/lock.errors.js';
import type { ReleaseReply, ReleaseRequest } from '../../port/lock-store.js';
import type { GuardedStore } from './guarded-store.js';

/** The releases of one service that are in flight or delayed. */
export class ReleaseTracker {
  private underWay = 0;
  private onAllDone: (() => void) | undefined;
  private readonly delays: Delays;

  constructor(
    private readonly store: Pick<GuardedStore, 'release'>,
    clock: Clock,
    private readonly emit: (event: LockEvent) => void,
  ) {
    this.delays = new Delays(clock);
  }

  get areAllDone(): boolean {
    return this.underWay === 0;
  }

  /**
   * Sends a release, after a delay that shutdown ends. A failure becomes an `error` event and `unknown`.
   *
   * @returns the reply, in a promise made outside of any async context, which it would keep as long as the hold is there
   */
  send(request: ReleaseRequest, delayMs = 0): NeverRejects<ReleaseReply> {
    this.underWay += 1;
    return detached(
      () =>
        new Promise((resolve) => {
          const settle = (reply: ReleaseReply): void => {
            this.onDone();
            resolve(reply);
          };
          const fail = (error: LockError): void => {
            this.emit({ type: 'error', key: request.key, during: 'release', error });
            settle('unknown');
          };
          const send = (): void => this.store.release(request, settle, fail);
          if (delayMs > 0) inBackground(this.delays.wait(delayMs).then(send) as NeverRejects<void>);
          else send();
        }),
    ) as NeverRejects<ReleaseReply>;
  }

  /** Sends delayed releases at once, and waits until each release is certain or has failed. */
  async finish(): Promise<void> {
    this.delays.endAll();
    if (this.underWay > 0) await new Promise<void>((resolve) => (this.onAllDone = resolve));
  }

  private onDone(): void {
    this.underWay -= 1;
    if (this.underWay === 0) this.onAllDone?.();
  }
}
