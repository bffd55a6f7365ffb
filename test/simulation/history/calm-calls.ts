import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import type { CallOptions } from '../../../libs/distributed-lock/src/lock/lock.js';
import type { Asking, Plan } from '../plan/plan.js';
import type { Actor, Stage } from './stage.js';

/** A connection that was lost in the last fault has been replaced by then. */
const PATIENCE_MS = 15_000;

/**
 * docs/guarantees.md, liveness: once a store can be reached again, each process gets a lock that nobody has.
 */
export async function callInCalm(stage: Stage): Promise<void> {
  await callAll(stage, ({ process, services }) =>
    services.map((service, i) => ({ service, key: `calm ${process.name} ${i}`, options: {} })),
  );
}

/**
 * Servers that came back with what they knew some time ago may have a lock that its owner has released since. On a store with
 * sessions it stays there until somebody asks for it, as the owner's session lives on: the owner's client then says that it is over.
 */
export async function askForEachKey(stage: Stage, plan: Plan): Promise<void> {
  const further = plan.faults.flatMap(({ act }) => ('call' in act ? [act.call] : []));
  const ofCalls = [...further, ...plan.calls]
    .flatMap(withNested)
    .flatMap(({ keys, options, claims }) =>
      keys.map((key) => [key, claims?.[key] ? { ...claims[key], fair: options.fair } : options] as const),
    );
  const ofOnces = (plan.onces ?? []).map(({ key }) => [`once:${key}`, { mode: 'exclusive' }] as const);
  const asked = new Map<string, Pick<CallOptions, 'mode' | 'permits' | 'fair'>>([...ofCalls, ...ofOnces]);
  const claims = [...asked].map(([key, { mode, permits, fair }]) => ({
    key,
    options: { ...(mode && { mode }), ...(permits && { permits }), ...(fair && { fair }) },
  }));
  await callAll(stage, ({ services }) =>
    services.slice(0, 1).flatMap((service) => claims.map((claim) => ({ service, ...claim }))),
  );
}

/** A call, after those that its work makes. */
function withNested(call: Asking): readonly Asking[] {
  const nested = call.work.flatMap((step) => ('call' in step ? withNested(step.call) : []));
  return [...nested, call];
}

interface CalmCall {
  readonly service: LockService;
  readonly key: string;
  readonly options: CallOptions;
}

async function callAll(
  { actors, parts }: Stage,
  callsOf: (actor: Actor) => readonly CalmCall[],
): Promise<void> {
  const { kernel, history, backend } = parts;
  const waiting = new Set<string>();
  const call = ({ process }: Actor, { service, key, options }: CalmCall): void => {
    const name = `${key} by ${process.name}`;
    waiting.add(name);
    const onEnd = () => waiting.delete(name);
    // A service that the plan has closed refuses.
    service.withLock(key, { ...options, waitMs: Infinity }, () => undefined).then(onEnd, onEnd);
  };
  for (const actor of actors) {
    if (actor.process.state !== 'running') continue;
    actor.process.receive(() => callsOf(actor).forEach((each) => call(actor, each)));
  }
  const patienceMs = PATIENCE_MS + (backend.closedAfterCrashMs ?? 0);
  const until = kernel.now + patienceMs;
  await kernel.run(kernel.now + 1, () => false);
  await kernel.run(until, () => waiting.size === 0);
  for (const name of waiting)
    history.violate('progress', `${name}: nobody has the key, and it was not granted in ${patienceMs} ms`);
}
