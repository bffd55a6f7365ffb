import type { ExecutionContext } from '@nestjs/common';
import type { Admission } from './admission.js';
import { answerTo } from './answer-to.js';

interface Early {
  readonly handler: unknown;
  readonly admission: Admission;
  stopListening?: (() => void) | undefined;
}

/**
 * Admissions that guards have got for their requests, until the interceptor takes them over. One map for the process: a
 * global interceptor is another instance than the one that Nest makes for the method, whose guard has acquired.
 */
const SHARED = Symbol.for('nestjs-distributed-lock/early-admissions');
const shared = globalThis as { [SHARED]?: WeakMap<object, Early> };
const byRequest = (shared[SHARED] ??= new WeakMap<object, Early>());

/** Gives the lock back where the interceptor never runs: the client has left, or another interceptor has answered. */
export function keepAdmission(context: ExecutionContext, admission: Admission): void {
  const request = context.getArgByIndex<object>(0);
  const early: Early = { handler: context.getHandler(), admission };
  byRequest.set(request, early);
  early.stopListening = answerTo(context)?.whenOver(() => {
    byRequest.delete(request);
    if ('lock' in admission) admission.lock?.releaseInBackground();
  });
}

export function takeAdmission(context: ExecutionContext): Admission | undefined {
  const request = context.getArgByIndex<object>(0);
  const early = byRequest.get(request);
  if (early?.handler !== context.getHandler()) return undefined;
  byRequest.delete(request);
  early.stopListening?.();
  return early.admission;
}
