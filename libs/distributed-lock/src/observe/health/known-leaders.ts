import type { LockEvent } from '../../lock/events/lock.events.js';
import type { LockService } from '../../lock/lock.service.js';

/** The leaders for which this instance stands, by name. */
export class KnownLeaders {
  private readonly byName = new Map<string, { readonly key: string; readonly since: Date | undefined }>();

  get isEmpty(): boolean {
    return this.byName.size === 0;
  }

  onEvent(event: LockEvent): void {
    if (event.type !== 'candidate' && event.type !== 'elected' && event.type !== 'demoted') return;
    const since = event.type === 'elected' ? event.since : undefined;
    this.byName.set(event.name, { key: event.key, since });
  }

  /** Asks the store who leads where this instance does not. Never rejects. */
  async describe(locks: LockService): Promise<Readonly<Record<string, LeaderState>>> {
    const states = [...this.byName].map(async ([name, { key, since }]): Promise<[string, LeaderState]> => {
      if (since) return [name, { isLeader: true, since }];
      const snapshot = await locks.inspect(key).catch(() => null);
      const holder = snapshot?.holders[0];
      return [name, holder === undefined ? { isLeader: false } : { isLeader: false, holder }];
    });
    return Object.fromEntries(await Promise.all(states));
  }
}

interface LeaderState {
  readonly isLeader: boolean;
  readonly since?: Date;
  /** The owner that leads, on another instance; left out if there is none, or the store does not answer. */
  readonly holder?: string;
}
