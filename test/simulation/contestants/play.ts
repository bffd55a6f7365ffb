import { Dice } from '../kernel/dice.js';
import { Kernel } from '../kernel/kernel.js';
import type { Asking, Plan } from '../plan/plan.js';
import type { Contestant, RunLocked, Seat } from './contestant.js';
import { ReducedFaults } from './faults.js';
import { checkExclusion, type Violation } from './judge.js';
import { Match } from './match.js';
import { routePeerGlobals } from './peer-globals.js';

/** Longer than any library waits by itself, for a circuit breaker or the next attempt. */
const SETTLED_MS = 120_000;

export interface Outcome {
  readonly violations: readonly Violation[];
  readonly lines: Match['lines'];
  readonly hash: string;
  /** Calls that were let in. */
  readonly served: number;
}

/** Runs one plan to its end, and judges it. */
export async function play(contestant: Contestant, plan: Plan): Promise<Outcome> {
  const kernel = new Kernel(new Dice(`run ${plan.seed}`));
  routePeerGlobals(kernel);
  const match = new Match(plan, kernel, contestant, await loaded(contestant));
  const stopWatching = watchErrors(match);
  const progress: Violation[] = [];
  try {
    progress.push(...(await runAll(match)));
  } finally {
    stopWatching();
  }
  const violations = [
    ...checkExclusion(match, contestant),
    ...progress,
    ...match.errors.slice(0, 1).map((text): Violation => ({ rule: 'errors', text })),
  ];
  for (const { rule, text } of violations) match.say(`BROKEN ${rule}: ${text}`);
  return { violations, lines: match.lines, hash: kernel.hash.toString(16), served: match.holds.length };
}

const modules = new Map<string, (seat: Seat) => RunLocked>();

async function loaded(contestant: Contestant): Promise<(seat: Seat) => RunLocked> {
  const known = modules.get(contestant.name) ?? (await contestant.load());
  modules.set(contestant.name, known);
  return known;
}

async function runAll(match: Match): Promise<readonly Violation[]> {
  const { plan, kernel } = match;
  const faults = new ReducedFaults(match);
  plan.calls.forEach(({ process, atMs, ...asking }, i) =>
    kernel.at(atMs, () => {
      const actor = match.latest(process);
      actor.process.receive(() => void match.call(actor, asking, `${i + 1}`));
    }),
  );
  const lastAt = Math.max(0, ...plan.calls.map(({ atMs }) => atMs));
  await kernel.run(lastAt + 2 * plan.watchdogTimeoutMs);
  faults.end();
  match.say('the faults are over');
  const lastsUntil = Math.max(kernel.now, ...match.incidents.map(({ to }) => to));
  const works = [...plan.calls, ...plan.faults.flatMap(({ act }) => ('call' in act ? [act.call] : []))];
  await kernel.run(lastsUntil + msIn(works) + 2 * plan.watchdogTimeoutMs + SETTLED_MS);
  const stuck = match.calls.filter(({ state }) => state === 'waits' || state === 'holds');
  const unsettled = stuck.map((it): Violation => ({
    rule: 'progress',
    text: `call ${it.call} of ${it.actor.process.name} for ${it.key} is not over (${it.state})`,
  }));
  return unsettled.length > 0 ? unsettled : askInCalm(match);
}

/** Each process that lives asks for each key once more, one after the other, and asks again for two minutes. */
async function askInCalm(match: Match): Promise<readonly Violation[]> {
  const { plan, kernel, actors } = match;
  const refused: Violation[] = [];
  for (const key of new Set(plan.calls.flatMap(({ keys }) => keys))) {
    for (const actor of actors.filter(({ process }) => process.state === 'running')) {
      const label = `calm ${actor.process.name} ${key}`;
      const asking = {
        service: 0,
        how: 'withLock',
        keys: [key],
        options: { waitMs: SETTLED_MS },
        work: [],
      } as const;
      actor.process.receive(() => void match.call(actor, asking, label));
      const call = () => match.calls.find((it) => it.call === label);
      await kernel.run(kernel.now + 2 * SETTLED_MS, () =>
        ['served', 'refused'].includes(call()?.state ?? ''),
      );
      if (call()?.state !== 'served')
        refused.push({
          rule: 'progress',
          text: `call ${label} is not let in although nobody has the key (${call()?.state})`,
        });
    }
  }
  return refused;
}

function msIn(calls: readonly Asking[]): number {
  return calls.flatMap(({ work }) => work).reduce((sum, step) => sum + ('ms' in step ? step.ms : 0), 0);
}

/** Node ends a process that does not handle an error. */
function watchErrors(match: Match): () => void {
  const onError = (error: unknown): void => {
    const actor = match.actors.find((it) => it.process === match.kernel.current);
    match.errors.push(`${actor?.process.name} does not handle an error, which ends it: ${String(error)}`);
    if (actor) match.crash(actor);
  };
  process.on('unhandledRejection', onError);
  process.on('uncaughtException', onError);
  return () => {
    process.off('unhandledRejection', onError);
    process.off('uncaughtException', onError);
  };
}
