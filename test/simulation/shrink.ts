import { plainerMethods, plainerProcesses } from './plan/less.js';
import type { CallPlan, Plan } from './plan/plan.js';

/** @returns whether a plan still fails in the same way */
export type Fails = (plan: Plan) => Promise<boolean>;

/** A plan without what its failure does not need: faults, calls, steps and options go one after the other, as long as it fails. */
export async function shrink(plan: Plan, fails: Fails): Promise<Plan> {
  let smallest = plan;
  for (;;) {
    const before = smallest;
    for (const shorter of shorterThan) smallest = await withoutMost(smallest, shorter, fails);
    if (JSON.stringify(before) === JSON.stringify(smallest)) return smallest;
  }
}

/** Of a plan, each part that could be left out, as the plan without it. */
type Shorter = (plan: Plan) => readonly (() => Plan)[];

/** Half of the faults or calls at once. */
const halves: Shorter = (plan) =>
  (['faults', 'calls'] as const).flatMap((list) => {
    const all = plan[list] as readonly unknown[];
    const half = Math.ceil(all.length / 2);
    if (all.length < 4) return [];
    return [() => ({ ...plan, [list]: all.slice(0, half) }), () => ({ ...plan, [list]: all.slice(half) })];
  });

const faults: Shorter = (plan) =>
  plan.faults.map((_, i) => () => ({ ...plan, faults: without(plan.faults, i) }));
const calls: Shorter = (plan) => plan.calls.map((_, i) => () => ({ ...plan, calls: without(plan.calls, i) }));
const candidates: Shorter = (plan) =>
  (plan.candidates ?? []).map((_, i) => () => ({ ...plan, candidates: without(plan.candidates ?? [], i) }));
const onces: Shorter = (plan) =>
  (plan.onces ?? []).map((_, i) => () => ({ ...plan, onces: without(plan.onces ?? [], i) }));
const steps: Shorter = (plan) =>
  plan.calls.flatMap((call, c) =>
    call.work.map((_, i) => () => withCall(plan, c, { ...call, work: without(call.work, i) })),
  );
const options: Shorter = (plan) =>
  plan.calls.flatMap((call, c) => {
    const plain = Object.keys(call.options).map((name) => () => {
      const { [name as 'waitMs']: _, ...rest } = call.options;
      return withCall(plan, c, { ...call, options: rest });
    });
    const { claims, ...unclaimed } = call;
    if (claims) plain.push(() => withCall(plan, c, unclaimed));
    if (call.how === 'withLock') return plain;
    const { locked: _locked, stream: _stream, ...asking } = call;
    return [...plain, () => withCall(plan, c, { ...asking, how: 'withLock' })];
  });
const clocks: Shorter = (plan) => [
  () => ({ ...plan, calm: 'without scenes' }),
  () => ({ ...plan, processes: plan.processes.map((it) => ({ ...it, rate: 1 })) }),
  () => ({ ...plan, processes: plan.processes.map((it) => ({ ...it, offsetMs: 0 })) }),
  () => ({
    ...plan,
    processes: plan.processes.slice(0, -1),
    calls: plan.calls.filter((it) => it.process < plan.processes.length - 1),
    ...(plan.onces && { onces: plan.onces.filter((it) => it.process < plan.processes.length - 1) }),
    ...(plan.candidates && {
      candidates: plan.candidates.filter((it) => it.process < plan.processes.length - 1),
    }),
  }),
  () => ({ ...plan, latency: { ...plan.latency, spread: 0 } }),
  () => ({ ...plan, faults: plan.faults.map(({ when, act }) => ({ when, act })) }),
];

const shorterThan: readonly Shorter[] = [
  halves,
  faults,
  calls,
  candidates,
  onces,
  steps,
  options,
  plainerMethods,
  plainerProcesses,
  clocks,
];

async function withoutMost(plan: Plan, shorter: Shorter, fails: Fails): Promise<Plan> {
  let smallest = plan;
  let i = 0;
  for (let candidates = shorter(smallest); i < candidates.length;) {
    const candidate = (candidates[i] as () => Plan)();
    const isSmaller =
      JSON.stringify(candidate).length !== JSON.stringify(smallest).length || !isEqual(candidate, smallest);
    if (isSmaller && candidate.processes.length > 0 && (await fails(candidate))) {
      smallest = candidate;
      candidates = shorter(smallest);
      if (shorter === clocks) i += 1;
    } else i += 1;
  }
  return smallest;
}

function isEqual(a: Plan, b: Plan): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function withCall(plan: Plan, index: number, call: CallPlan): Plan {
  return { ...plan, calls: plan.calls.with(index, call) };
}

function without<Item>(items: readonly Item[], index: number): readonly Item[] {
  return items.toSpliced(index, 1);
}
