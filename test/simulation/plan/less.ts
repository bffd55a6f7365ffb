import type { LockedPlan, Plan, ProcessPlan } from './plan.js';

/** The plan with one property of a method with `@Locked` as it is most simple. */
export function plainerMethods(plan: Plan): readonly (() => Plan)[] {
  return plan.calls.flatMap((call, c) => {
    const { locked } = call;
    if (!locked) return [];
    const { locked: _, ...rest } = call;
    const changed = plainer(locked).map((it) => ({ ...call, locked: it }));
    return [rest, ...changed].map((it) => () => ({ ...plan, calls: plan.calls.with(c, it) }));
  });
}

function plainer(locked: LockedPlan): readonly LockedPlan[] {
  const { reader: _reader, onBusy: _onBusy, isFree: _isFree, ...plain } = locked;
  const { isFree: _free, ...taken } = locked;
  const { onBusy: _busy, ...throwing } = locked;
  const { reader: _reads, ...read } = locked;
  const all: readonly LockedPlan[] = [
    { ...plain, gives: 'promise' },
    read,
    throwing,
    taken,
    { ...locked, keys: 'function' },
  ];
  return all.filter((it) => JSON.stringify(it) !== JSON.stringify(locked));
}

/** The plan with a process that is configured, named, or listened to as most are. */
export function plainerProcesses(plan: Plan): readonly (() => Plan)[] {
  return plan.processes.flatMap((process, p) => {
    const { settings: _settings, ...configured } = process;
    const { listener: _listener, ...unheard } = process;
    const { isNamed: _name, ...nameless } = process;
    const ofOneSetting = Object.keys(process.settings ?? {}).map((name): ProcessPlan => {
      const { [name as 'shutdownGraceMs']: _, ...settings } = process.settings ?? {};
      return { ...process, settings };
    });
    const all: readonly ProcessPlan[] = [configured, unheard, nameless, ...ofOneSetting];
    return all
      .filter((it) => JSON.stringify(it) !== JSON.stringify(process))
      .map((it) => () => ({ ...plan, processes: plan.processes.with(p, it) }));
  });
}
