import type { WithLockOptions } from '../../../libs/distributed-lock/src/lock/lock.js';
import type { Asking, CallOptionsPlan } from '../plan/plan.js';
import { claimPlanOf } from './claims.js';
import { serviceIn, serviceOf, type Caller } from './caller.js';
import type { CallRecord } from './history.js';
import { nameOf, prefixOf } from './names.js';
import type { Actor, Held } from './stage.js';
import { WorkFailed } from './work-failed.js';

const DEFAULT_WAIT_MS = 10_000;
const DEFAULT_GRACE_MS = 1000;

export function recordCall(
  { stage, actor, label }: Caller,
  asking: Asking,
  outer: readonly Held[],
): CallRecord {
  const { history, backend, hasSessions } = stage.parts;
  const { keys, options, service } = asking;
  const { waitMs = DEFAULT_WAIT_MS } = options;
  const ofPermits = keys.filter((key) => claimPlanOf(asking, key).permits !== undefined);
  const isForWriter =
    ofPermits.length === 0 && keys.every((key) => claimPlanOf(asking, key).mode !== 'shared');
  const names = keys.map((key) => nameOf(actor, key));
  const prefix = prefixOf(actor);
  const holders = hasSessions && waitMs === 0 ? backend.holdersOf?.(names[0] ?? '') : undefined;
  const own = serviceOf(actor, service);
  const under = outer.filter(({ lock }) => serviceIn(lock) === own).flatMap(({ records }) => records);
  const call: CallRecord = {
    call: label,
    process: actor.process.name,
    keys: names,
    ...(prefix !== '' && { prefix }),
    service,
    under,
    waitMs: waitMs === 'Infinity' ? Infinity : waitMs,
    ...(options.fair && { isFair: true }),
    ...(ofPermits.length > 0 && { ofPermits: ofPermits.map((key) => nameOf(actor, key)) }),
    ...(isForWriter && { isForWriter }),
    ...(options.onBusy === 'takeover' && { graceMs: options.graceMs ?? DEFAULT_GRACE_MS }),
    ...(holders && { holdersThen: [...holders.keys()] }),
    askedAt: actor.process.trueNow,
    askedAtOwn: actor.process.monotonic,
    askedAtUptime: actor.process.uptime,
  };
  history.calls.push(call);
  stage.waiting.set(call, actor);
  stage.onEvent('asked', actor, keys);
  return call;
}

/** Of what gets a lock without a call of the plan. It is none of the calls of the history: only its hold is judged. */
export function silentCall({ process }: Actor, label: string, keys: readonly string[]): CallRecord {
  return {
    call: label,
    process: process.name,
    keys,
    under: [],
    waitMs: 0,
    askedAt: process.trueNow,
    askedAtOwn: process.monotonic,
    askedAtUptime: process.uptime,
  };
}

export function settle({ stage, actor }: Caller, call: CallRecord, error?: unknown): void {
  const { kernel, history } = stage.parts;
  if (error !== undefined) {
    call.error = error;
    history.say(`${call.process} call ${call.call} failed: ${String((error as Error).message ?? error)}`);
  }
  history.movedAt = kernel.now;
  if (call.settledAt !== undefined) return;
  call.settledAt = actor.process.trueNow;
  call.settledAtOwn = actor.process.monotonic;
  call.settledAtUptime = actor.process.uptime;
  stage.waiting.delete(call);
}

export function optionsOf(
  caller: Caller,
  { how, abortAfterMs }: Asking,
  given: CallOptionsPlan,
  call: CallRecord,
): WithLockOptions {
  const { waitMs, ...rest } = given;
  if (how === 'tryAcquire' && waitMs === undefined) Object.assign(call, { waitMs: 0 });
  return {
    ...rest,
    ...(waitMs !== undefined && { waitMs: waitMs === 'Infinity' ? Infinity : waitMs }),
    ...(abortAfterMs !== undefined && { signal: signalAfter(caller, abortAfterMs, call) }),
  };
}

function signalAfter({ stage, actor }: Caller, ms: number, call: CallRecord): AbortSignal {
  const controller = new AbortController();
  const cancelTimer = actor.process.setTimeout(ms, () =>
    controller.abort(new WorkFailed('the call was aborted')),
  );
  stage.aborts.set(call, { controller, cancelTimer });
  return controller.signal;
}
