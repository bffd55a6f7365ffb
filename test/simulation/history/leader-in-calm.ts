import { FIRST_PAUSE_MS } from '../../../libs/distributed-lock/src/leader/candidate.js';
import type { TermStep } from '../plan/candidate.js';
import { Standing } from './standing.js';
import type { Actor, Stage } from './stage.js';

const SLACK_MS = 100;
const PATIENCE_MS = 15_000;
/** A recheck must not be taken for a hand-off. */
const MIN_RECHECK_MS = 900;

const FAILS_AFTER_MS = 50;

/** Of three candidates, by the order in which they stand. */
const WORKS: readonly (readonly TermStep[])[] = [
  [{ do: 'lead' }],
  [],
  [{ do: 'sleep', ms: FAILS_AFTER_MS }, { do: 'throw' }],
];

/**
 * docs/recipes/workers.md: of three candidates the first leads. It resigns, and another one leads at once, in one Redis the one that has
 * waited for longest. Then the second resigns in work of its own, which does not wait for itself, and the work of the third fails. Only
 * who leads runs the work of a leader.
 */
export async function leaderInCalm(stage: Stage): Promise<void> {
  const { kernel, handOffMs, servesInTurn } = stage.parts;
  const mostMs = handOffMs + SLACK_MS;
  const actors = stage.actors.filter(({ process }) => process.state === 'running').slice(0, WORKS.length);
  if (mostMs > MIN_RECHECK_MS || actors.length < WORKS.length) return;
  const standings: Standing[] = [];
  for (const [i, actor] of actors.entries()) {
    const plan = { process: i, service: 0, name: 'in calm', atMs: 0, work: WORKS[i] as readonly TermStep[] };
    const standing = new Standing(stage, actor, plan, `calm candidate ${i + 1}`);
    standings.push(standing);
    actor.process.receive(() => standing.stand());
    await kernel.run(
      kernel.now + (i === 0 ? PATIENCE_MS : 3 * mostMs),
      () => i === 0 && standing.candidate.isLeader,
    );
    // A service that the plan has closed refuses.
    if (!standing.mayLead || (i === 0 && !standing.candidate.isLeader)) return closeAll(stage, standings);
  }
  const [first, second, third] = standings as [Standing, Standing, Standing];
  const follows = (next: Standing, before: Standing): Promise<Standing | undefined> =>
    successor(stage, standings, { before, mostMs, ...(servesInTurn && { next }) });
  await callEach(stage, standings);
  first.actor.process.receive(() => void first.resign());
  const afterFirst = await follows(second, first);
  // Meanwhile the release of the first is confirmed, and it stands in the queue again.
  await kernel.run(kernel.now + 3 * mostMs);
  await callEach(stage, standings);
  // Where candidates are not served in turn, the third may lead before the second, and its term ends by itself.
  if (afterFirst === second) {
    second.actor.process.receive(() => void second.resignInWork());
    const afterSecond = await follows(third, second);
    if (afterSecond === third) await follows(first, third);
  }
  await kernel.run(kernel.now + FIRST_PAUSE_MS + mostMs);
  await closeAll(stage, standings);
}

interface Succession {
  readonly before: Standing;
  readonly mostMs: number;
  /** Default: any other one. */
  readonly next?: Standing;
}

/** Who leads next, within some messages. */
async function successor(
  { parts: { kernel, history } }: Stage,
  standings: readonly Standing[],
  { before, next, mostMs }: Succession,
): Promise<Standing | undefined> {
  const from = kernel.now;
  const elected = () => standings.find((it) => it !== before && it.electedAt > from);
  await kernel.run(from + FAILS_AFTER_MS + mostMs, () => elected() !== undefined);
  const found = elected();
  if (!found) history.violate('leader', `nobody leads within some messages of the last term`);
  else if (next && found !== next)
    history.violate('leader', 'a candidate leads before one that stood earlier');
  return found;
}

/** Each is asked to work as the leader, and one does. */
async function callEach(
  { parts: { kernel, history } }: Stage,
  standings: readonly Standing[],
): Promise<void> {
  const ran: Actor[] = [];
  const leader = standings.find(({ candidate }) => candidate.isLeader);
  for (const { actor, candidate } of standings)
    actor.process.receive(() => void candidate.runAsLeader(() => ran.push(actor)));
  await kernel.run(kernel.now + 1);
  if (leader && (ran.length !== 1 || ran[0] !== leader.actor))
    history.violate('leader', `${ran.length} of ${standings.length} candidates run the work of a leader`);
}

async function closeAll(
  { parts: { kernel, history } }: Stage,
  standings: readonly Standing[],
): Promise<void> {
  const living = standings.filter(({ isAlive }) => isAlive);
  let left = living.length;
  for (const each of living) each.actor.process.receive(() => void each.close().then(() => (left -= 1)));
  await kernel.run(kernel.now + PATIENCE_MS, () => left === 0);
  if (left > 0) history.violate('leader', `${left} calm candidates are not closed`);
}
