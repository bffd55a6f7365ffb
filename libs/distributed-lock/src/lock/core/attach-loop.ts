import type { AcquireRequest } from '../../port/lock-store.js';
import { LockNotHeldError } from '../../port/lock.errors.js';
import type { LockRequest } from '../request/lock-request.js';
import { AcquireLoop } from './acquire-loop.js';
import type { Owner } from './owner.js';

/** Asks for the detached lock with which the one caller of its owner goes on. It never waits: the store has that lock, or it has not. */
export class AttachLoop extends AcquireLoop {
  constructor(
    owner: Owner,
    private readonly detached: NonNullable<LockRequest['detached']>,
  ) {
    super(owner);
  }

  protected override send(request: AcquireRequest): void {
    this.runtime.store.attach({ ...request, ...this.detached, mayWait: false }, this);
  }

  protected override onRefusal(): void {
    const { key, queue } = this.owner;
    const message = `"${key}" was not attached: its detached lock is not in this store any more. It was attached already, its lease ran out, it was released by force, or the baton is of another server.`;
    queue.dismissAll(new LockNotHeldError(message, key));
    this.owner.endIfUnused();
  }
}
