import { readFileSync } from 'node:fs';
import type { Options } from '../options.js';
import type { Plan } from '../plan/plan.js';
import { shrink } from '../shrink.js';
import type { Contestant } from './contestant.js';
import { contestantNamed } from './contestants.js';
import type { Violation } from './judge.js';
import { play } from './play.js';
import { drawReduced } from './reduce.js';

/** Every so many seeds run twice, and must go the same way. */
const TWICE_EVERY = 50;

/** `npm run simulate -- --contestant NAME`: another library, or ours as it would be in its place. @returns whether nothing was broken */
export async function runContestant(name: string, options: Options): Promise<boolean> {
  const contestant = contestantNamed(name);
  const { seed, plans } = options;
  if (plans.length > 0) {
    let isGood = true;
    for (const file of plans)
      isGood = (await show(contestant, JSON.parse(readFileSync(file, 'utf8')) as Plan, options)) && isGood;
    return isGood;
  }
  if (seed !== undefined) return show(contestant, drawReduced(contestant, seed), options);
  return runMany(contestant, options);
}

async function show(contestant: Contestant, given: Plan, options: Options): Promise<boolean> {
  let plan = given;
  let outcome = await play(contestant, plan);
  const [first] = outcome.violations;
  if (options.shrink && first) {
    plan = await shrunk(contestant, plan, first.rule);
    outcome = await play(contestant, plan);
  }
  for (const { at, text } of outcome.lines) console.log(`${at.toFixed(1).padStart(10)} ${text}`);
  if (options.shrink && first) console.log(`The shrunk plan:\n${JSON.stringify(plan)}`);
  console.log(`${contestant.name}: ${outcome.violations.length} broken promises, hash ${outcome.hash}`);
  return outcome.violations.length === 0;
}

function shrunk(contestant: Contestant, plan: Plan, rule: Violation['rule']): Promise<Plan> {
  return shrink(plan, async (shorter) =>
    (await play(contestant, shorter)).violations.some((it) => it.rule === rule),
  );
}

/** Prints a line for each seed that breaks something, and in the end how many did. */
async function runMany(contestant: Contestant, { from, count, minutes }: Options): Promise<boolean> {
  const since = process.cpuUsage();
  const seconds = (): number => {
    const { user, system } = process.cpuUsage(since);
    return (user + system) / 1e6;
  };
  const broken = new Map<string, number>();
  let [done, served] = [0, 0];
  for (; done < count && seconds() < minutes * 60; done++) {
    const seed = String(from + done);
    const plan = drawReduced(contestant, seed);
    const outcome = await play(contestant, plan);
    served += outcome.served;
    if (done % TWICE_EVERY === 0 && (await play(contestant, plan)).hash !== outcome.hash)
      throw new Error(`Seed ${seed} of ${contestant.name} went two ways.`);
    for (const rule of new Set(outcome.violations.map((it) => it.rule)))
      broken.set(rule, (broken.get(rule) ?? 0) + 1);
    const [first] = outcome.violations;
    if (first) console.log(`seed ${seed}: ${first.rule}: ${first.text.split('\n')[0]}`);
  }
  const rules = [...broken].map(([rule, seeds]) => `${rule} in ${seeds}`).join(', ') || 'nothing broken';
  console.log(
    `${contestant.name}: ${done} histories from seed ${from} on, ${served} calls let in, ${rules}, ${(done / seconds()).toFixed(1)} a CPU second`,
  );
  return broken.size === 0;
}
