import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import type { Asking } from '../plan/plan.js';
import { block, callFromWithin } from './listener.js';
import type { Held, Stage } from './stage.js';

/** A listener of `lock.signal` that a user has written badly, or that gives the lock back. One that throws ends its process. */
export function listenToLoss(
  held: Held,
  manner: NonNullable<Asking['onAbort']>,
  service: LockService,
  stage: Stage,
): void {
  const { actor, lock } = held;
  const { history } = stage.parts;
  const { signal } = lock;
  const listen = (): void => {
    switch (manner) {
      case 'blocks':
        return block(actor.process, history);
      case 'calls':
        return void callFromWithin(service, actor.process, history);
      case 'releases':
        for (const record of held.records) record.isLeft = true;
        stage.end(held, 'released');
        void lock.release();
    }
  };
  if (!signal.aborted) signal.addEventListener('abort', listen);
}
