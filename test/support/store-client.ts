import { LOCK } from '../../libs/distributed-lock/src/port/claim.js';
import type {
  AcquireRequest,
  Grant,
  LockStore,
  LockStoreContext,
  Notification,
  ReleaseRequest,
  Renewal,
} from '../../libs/distributed-lock/src/port/lock-store.js';
import type { Clock } from '../../libs/distributed-lock/src/time/clock.js';
import type { Fate } from '../../libs/distributed-lock/src/testing/index.js';
import type { ServerFaults } from './session-server.js';
import { follow } from './lock-world.js';

export const KEY = 'goods';

interface Stage {
  readonly server: { create(context: LockStoreContext, faults: ServerFaults): LockStore };
  readonly clock: Clock;
}

/** A client of a remote server. The test decides over its next calls, and sees them and its notifications. */
export class StoreClient {
  readonly store: LockStore;
  readonly notifications: Notification[] = [];
  /** Of the calls to come, in order. All others pass at once. */
  fates: Fate[] = [];
  always: Fate | undefined;
  /** How late each notification comes; `undefined` loses it. */
  pushesAfterMs: number | undefined = 0;
  calls = 0;

  constructor({ server, clock }: Stage) {
    this.store = server.create(
      { clock, keyPrefix: '', watchdogTimeoutMs: 30_000 },
      {
        command: () => {
          this.calls += 1;
          return this.fates.shift() ?? this.always;
        },
        notification: () => (this.pushesAfterMs === undefined ? [] : [this.pushesAfterMs]),
      },
    );
    this.store.notifications$.subscribe((notification) => this.notifications.push(notification));
  }

  owner(number: number): string {
    return `${this.store.clientId}:${number}`;
  }

  request(number: number, more: Partial<AcquireRequest> = {}): AcquireRequest {
    const owner = this.owner(number);
    return { key: KEY, owner, claim: LOCK, leaseMs: 5000, waitMs: 0, ticket: 0, tokens: 1, ...more };
  }

  acquire(number: number, more: Partial<AcquireRequest> = {}) {
    return follow(this.store.acquire(this.request(number, more)));
  }

  wait(number: number, more: Partial<AcquireRequest> = {}) {
    return this.acquire(number, { waitMs: 10_000, ...more });
  }

  release(number: number, more: Partial<ReleaseRequest> = {}) {
    return follow(this.store.release({ ...this.request(number), flush: 'now', ...more }));
  }

  renew(number: number, { token, lastToken }: Grant, more: Partial<Renewal> = {}) {
    return follow(this.store.renew([{ ...this.request(number), token, lastToken, ...more }]));
  }

  /** No command is executed or answered any more, and no notification arrives. */
  cut(): void {
    this.always = { executedAfterMs: [], repliedAfterMs: 'never' };
    this.pushesAfterMs = undefined;
  }

  mend(): void {
    this.always = undefined;
    this.pushesAfterMs = 0;
  }

  /** The notifications of one owner, by their kinds. */
  told(number: number): readonly string[] {
    return this.notifications.filter(({ owner }) => owner === this.owner(number)).map(({ kind }) => kind);
  }
}
