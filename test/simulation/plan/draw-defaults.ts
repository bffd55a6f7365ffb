import type { Dice } from '../kernel/dice.js';
import type { KeyPlan } from './keys.js';
import type { Asking, CallOptionsPlan, CallPlan, FaultPlan, ProcessPlan, Step } from './plan.js';
import type { DefaultsPlan } from './settings.js';

/** No call has a longer minimum hold, which its lease must outlast. */
const MAX_HOLD_MS = 3000;

/** A cycle of waits across processes is not found: a finite wait ends it. */
const NESTED_WAIT_MS = 3000;

interface Frame {
  readonly watchdogTimeoutMs: number;
  readonly keys: readonly KeyPlan[];
  /** A candidate takes neither a fixed lease nor a claim of others. */
  readonly hasCandidates: boolean;
  readonly mayBeFair: boolean;
}

/** The same processes, of which some have defaults for their calls. */
export function withDefaults(
  dice: Dice,
  processes: readonly ProcessPlan[],
  { keys, hasCandidates, mayBeFair, watchdogTimeoutMs }: Frame,
): readonly ProcessPlan[] {
  if (!dice.happens(0.1)) return processes;
  const claims: DefaultsPlan[] = [{ mode: 'exclusive' }];
  const permits = keys.find(({ family }) => family === 'permits' || family === 'both kinds')?.permits;
  if (!hasCandidates) claims.push({ mode: 'shared' }, ...(permits === undefined ? [] : [{ permits }]));
  return processes.map((process) => {
    if (dice.happens(0.4)) return process;
    const defaults: DefaultsPlan = {
      ...(dice.happens(0.4) && { waitMs: dice.pick([0, dice.scale(100, 3000), 'Infinity'] as const) }),
      ...(dice.happens(0.2) && {
        holdAtLeastMs: dice.scale(10, Math.min(MAX_HOLD_MS, watchdogTimeoutMs / 2)),
      }),
      ...(dice.happens(0.3) && { maxWaiting: dice.int(0, 4) }),
      ...(!hasCandidates && dice.happens(0.3) && { leaseMs: dice.int(MAX_HOLD_MS, 10_000) }),
      ...(dice.happens(0.5) ? dice.pick(claims) : mayBeFair && dice.happens(0.4) && { fair: true }),
    };
    return { ...process, settings: { ...process.settings, defaults } };
  });
}

/** The calls of such a process leave to its defaults what these say, and name what they mean otherwise. */
export function leftToDefaults(
  calls: readonly CallPlan[],
  processes: readonly ProcessPlan[],
): readonly CallPlan[] {
  return calls.map((call) => {
    const { defaults } = processes[call.process]?.settings ?? {};
    return defaults ? { ...call, ...askingWith(call, defaults) } : call;
  });
}

/** Nobody knows which process makes the call of a fault, so it names its claim. */
export function namingClaims(
  faults: readonly FaultPlan[],
  processes: readonly ProcessPlan[],
): readonly FaultPlan[] {
  if (processes.every(({ settings }) => settings?.defaults === undefined)) return faults;
  return faults.map((fault): FaultPlan => {
    const { act } = fault;
    if (!('call' in act)) return fault;
    return { ...fault, act: { ...act, call: askingWith(act.call, {}, true) } };
  });
}

function askingWith(asking: Asking, defaults: DefaultsPlan, namesAll = false): Asking {
  const work = asking.work.map((step): Step => {
    if (!('call' in step)) return step;
    const call = askingWith(step.call, defaults, namesAll);
    const mayBeEndless = (namesAll || defaults.waitMs === 'Infinity') && call.how !== 'tryAcquire';
    const options = { ...(mayBeEndless && { waitMs: NESTED_WAIT_MS }), ...call.options };
    return { ...step, call: { ...call, options } };
  });
  const options = optionsWith(asking, defaults, namesAll);
  return { ...asking, work, options: { ...minimumHoldOf(asking, defaults, namesAll), ...options } };
}

/** None for a lease that would end before, and for a lock that may be given back before anybody notes a minimum hold. */
function minimumHoldOf(
  { options: { leaseMs = Infinity }, locked }: Asking,
  { holdAtLeastMs = 0 }: DefaultsPlan,
  namesAll: boolean,
): Pick<CallOptionsPlan, 'holdAtLeastMs'> {
  const mayHave = !namesAll && leaseMs >= holdAtLeastMs && locked?.reader !== 'drops';
  return mayHave ? {} : { holdAtLeastMs: 0 };
}

function optionsWith(
  { options, how, claims }: Asking,
  defaults: DefaultsPlan,
  namesAll: boolean,
): CallOptionsPlan {
  const { mode, permits, weight, fair, ...others } = options;
  const isClaimed = namesAll || defaults.mode !== undefined || defaults.permits !== undefined;
  const isDefault =
    !namesAll && isClaimed && (mode ?? 'exclusive') === defaults.mode && permits === defaults.permits;
  const ofPermits = { ...(permits !== undefined && { permits }), ...(weight !== undefined && { weight }) };
  // `@Locked` is checked when its class is defined, before any default is known.
  const mustName = namesAll || (weight !== undefined && (how === 'handler' || how === 'method'));
  const isOfDefaultPermits = !mustName && permits !== undefined && permits === defaults.permits;
  const named = permits === undefined ? { mode: mode ?? 'exclusive' } : ofPermits;
  const claim = isClaimed ? named : { ...(mode && { mode }), ...ofPermits };
  const left = isOfDefaultPermits ? { ...(weight !== undefined && { weight }) } : isDefault ? {} : claim;
  const isFairHere =
    defaults.fair === true && (options.onBusy === 'takeover' || permits !== undefined || mode || claims);
  return { ...others, ...left, ...(isFairHere ? { fair: false } : fair !== undefined && { fair }) };
}
