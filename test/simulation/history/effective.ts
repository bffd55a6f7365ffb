import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import type { CallOptionsPlan } from '../plan/plan.js';
import type { DefaultsPlan } from '../plan/settings.js';

/**
 * The options of a call with those of its service for all that it leaves out. README: a call that names a claim has none of the default
 * claim, and one that takes over is refused by no default limit.
 */
export function effectiveOptions(service: LockService, options: CallOptionsPlan): CallOptionsPlan {
  const { defaults } = service.options;
  if (Object.keys(defaults).length === 0) return options;
  const { waitMs, mode, permits, weight, maxWaiting, ...others } = defaults as DefaultsPlan & object;
  const namesClaim = options.mode !== undefined || options.permits !== undefined;
  const claim = { ...(mode && { mode }), ...(permits && { permits }), ...(weight && { weight }) };
  return {
    ...others,
    ...(waitMs !== undefined && { waitMs }),
    ...(maxWaiting !== undefined && options.onBusy !== 'takeover' && { maxWaiting }),
    ...(!namesClaim && claim),
    ...options,
  };
}
