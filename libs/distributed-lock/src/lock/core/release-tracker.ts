import { Delays } from '../../time/delays.js';
import { detached } from '../../async-context/detached.js';
import { inBackground, type NeverRejects } from '../../async-context/in-background.js';
import type { LockError } from '../../port/lock.errors.js';
import type { ReleaseReply, ReleaseRequest } from '../../port/lock-store.js';
import type { Replies } from './guarded-store.js';
import type { LockRuntime } from './lock-runtime.js';

/** A release that has begun. */
export interface Release {
  /** Made for those who await it: most releases run in the background, and a promise for each takes time. */
  readonly reply: NeverRejects<ReleaseReply>;
}

/** A release that needs no request: by a local hand-off, or by a nested call. */
export const RELEASED: Release = { reply: Promise.resolve('released') as NeverRejects<'released'> };

/** The releases of one service that are in flight or delayed. */
export class ReleaseTracker {
  private underWay = 0;
  private onAllDone: (() => void) | undefined;
  private readonly delays: Delays;

  constructor(readonly runtime: LockRuntime) {
    this.delays = new Delays(runtime.clock);
  }

  get areAllDone(): boolean {
    return this.underWay === 0;
  }

  /** Sends a release, after a delay that shutdown ends. A failure becomes an `error` event and `unknown`. */
  send(request: ReleaseRequest, delayMs = 0): Release {
    this.underWay += 1;
    const release = new PendingRelease(this, request.key);
    if (delayMs <= 0) this.runtime.store.release(request, release);
    else inBackground(this.sendLater(request, release, delayMs));
    return release;
  }

  /** Sends delayed releases at once, and waits until each release is certain or has failed. */
  async finish(): Promise<void> {
    this.delays.endAll();
    if (this.underWay > 0) await new Promise<void>((resolve) => (this.onAllDone = resolve));
  }

  onDone(): void {
    this.underWay -= 1;
    if (this.underWay === 0) this.onAllDone?.();
  }

  private sendLater(request: ReleaseRequest, release: PendingRelease, ms: number): NeverRejects<void> {
    const sent = detached(() =>
      this.delays.wait(ms).then(() => this.runtime.store.release(request, release)),
    );
    return sent as NeverRejects<void>;
  }
}

class PendingRelease implements Release, Replies<ReleaseReply> {
  private outcome: ReleaseReply | undefined;
  private promise: NeverRejects<ReleaseReply> | undefined;
  private resolve: ((reply: ReleaseReply) => void) | undefined;

  constructor(
    private readonly tracker: ReleaseTracker,
    private readonly key: string,
  ) {}

  /** Made outside of any async context, which the promise would keep as long as the hold is there. */
  get reply(): NeverRejects<ReleaseReply> {
    return (this.promise ??= detached(() => this.makePromise()));
  }

  onReply(reply: ReleaseReply): void {
    this.outcome = reply;
    this.tracker.onDone();
    this.resolve?.(reply);
  }

  onFailure(error: LockError): void {
    this.tracker.runtime.emit({ type: 'error', key: this.key, during: 'release', error });
    this.onReply('unknown');
  }

  private makePromise(): NeverRejects<ReleaseReply> {
    const { outcome } = this;
    return new Promise((resolve) => {
      if (outcome === undefined) this.resolve = resolve;
      else resolve(outcome);
    }) as NeverRejects<ReleaseReply>;
  }
}
