import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { LockService, type LockEvent } from 'nestjs-distributed-lock';

/** Counts the callers of this process that wait, from the events of its locks. */
@Injectable()
export class LockTraffic implements OnModuleDestroy {
  /** How the owners of this process begin. */
  client: string | null = null;
  private readonly counts = new Map<string, number>();
  private readonly subscription;

  constructor(locks: LockService) {
    this.subscription = locks.events$.subscribe((event) => this.onEvent(event));
  }

  waiting(): Record<string, number> {
    return Object.fromEntries(this.counts);
  }

  onModuleDestroy(): void {
    this.subscription.unsubscribe();
  }

  private onEvent(event: LockEvent): void {
    if (event.type === 'asked') this.count(event.key, 1);
    if (event.type === 'acquired' || event.type === 'abandoned') this.count(event.key, -1);
    // An owner is written client:number.
    if (event.type === 'acquired') this.client = event.owner.slice(0, event.owner.lastIndexOf(':'));
  }

  private count(key: string, change: number): void {
    const count = (this.counts.get(key) ?? 0) + change;
    if (count > 0) this.counts.set(key, count);
    else this.counts.delete(key);
  }
}
