import type { ExecutionContext } from '@nestjs/common';
import { whenAnswered } from './client-left.js';
import type { Admission } from './under-lock.js';

interface Early {
  readonly handler: unknown;
  readonly admission: Admission;
  stopListening?: () => void;
}

const SHARED = Symbol.for('nestjs-distributed-lock/early-admissions');
const shared = globalThis as { [SHARED]?: WeakMap<object, Early> };

/**
 * Admissions that guards have got for their requests, until the interceptor takes them over. One map for the process: a
 * global interceptor is another instance than the one that Nest makes for the method, whose guard has acquired.
 */
export class EarlyAdmissions {
  private readonly byRequest = (shared[SHARED] ??= new WeakMap<object, Early>());

  /** Where the interceptor never runs, as when the client leaves or another interceptor answers, the lock goes back. */
  keep(context: ExecutionContext, admission: Admission): void {
    const request = context.getArgByIndex<object>(0);
    const early: Early = { handler: context.getHandler(), admission };
    this.byRequest.set(request, early);
    early.stopListening = whenAnswered(context, () => {
      this.byRequest.delete(request);
      if ('lock' in admission) admission.lock?.giveBack();
    });
  }

  take(context: ExecutionContext): Promise<Admission> | undefined {
    const request = context.getArgByIndex<object>(0);
    const early = this.byRequest.get(request);
    if (early?.handler !== context.getHandler()) return undefined;
    this.byRequest.delete(request);
    early.stopListening?.();
    return Promise.resolve(early.admission);
  }
}
