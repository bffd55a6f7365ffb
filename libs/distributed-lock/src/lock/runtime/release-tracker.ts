import type { Clock } from '../../time/clock.js';
import { Delays } from '../../time/delays.js';
import type { NeverRejects } from '../../async-context/in-background.js';
import type { LockEvent } from '../events/lock.events.js';
import type { ReleaseReply } from '../../port/lock-store.js';

/** The releases of one service that are in flight or delayed. */
export class ReleaseTracker {
  private underWay = 0;
  private onAllDone: (() => void) | undefined;
  private readonly delays: Delays;

  constructor(
    clock: Clock,
    private readonly emit: (event: LockEvent) => void,
  ) {
    this.delays = new Delays(clock);
  }

  get areAllDone(): boolean {
    return this.underWay === 0;
  }

  /** Waits before a release is sent. Shutdown ends the wait. */
  pause(ms: number): Promise<void> {
    return this.delays.wait(ms);
  }

  /** @returns the reply to a release. A failure becomes an `error` event and `unknown`. */
  track(key: string, released: Promise<ReleaseReply>): NeverRejects<ReleaseReply> {
    this.underWay += 1;
    return released.then(
      (reply) => {
        this.onDone();
        return reply;
      },
      (error: unknown) => {
        this.emit({ type: 'error', key, during: 'release', error });
        this.onDone();
        return 'unknown';
      },
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
