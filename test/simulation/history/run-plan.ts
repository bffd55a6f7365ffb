import type { Backend } from '../backends/backend.js';
import { Dice } from '../kernel/dice.js';
import { Kernel } from '../kernel/kernel.js';
import { Network } from '../network/network.js';
import {
  longestLatency,
  longestLeaseMs,
  longestMinimumHoldMs,
  longestMs,
  longestRoundTripMs,
  setBackMs,
} from '../plan/longest.js';
import type { CallPlan, Plan } from '../plan/plan.js';
import { count } from '../summary/counts.js';
import { askedOnceInCalm } from './asked-once-in-calm.js';
import { askForEachKey, callInCalm } from './calm-calls.js';
import { crowdInCalm } from './crowd-in-calm.js';
import { deadPermitInCalm } from './dead-permit-in-calm.js';
import { drainInCalm } from './drain-in-calm.js';
import { Elections } from './elections.js';
import { endsInCalm } from './ends-in-calm.js';
import { foreignInCalm } from './foreign-in-calm.js';
import { forcedInCalm } from './forced-in-calm.js';
import { goneInCalm } from './gone-in-calm.js';
import { leaderInCalm } from './leader-in-calm.js';
import { limitInCalm } from './limit-in-calm.js';
import { sweepInCalm } from './sweep-in-calm.js';
import { takeoverInCalm } from './takeover-in-calm.js';
import { downgradeInCalm } from './downgrade-in-calm.js';
import { newcomerInCalm } from './newcomer-in-calm.js';
import { nameOf } from './names.js';
import { Faults } from './faults.js';
import { History, type CallRecord } from './history.js';
import { Onces } from './onces.js';
import { onceInCalm } from './once-in-calm.js';
import { passedInCalm } from './passed-in-calm.js';
import { readersInCalm } from './readers-in-calm.js';
import { maxNoticeMs } from './takeovers.js';
import { toldAfterGapMs } from './told.js';
import { Program } from './program.js';
import { seenInCalm } from './seen-in-calm.js';
import { severalInCalm } from './several-in-calm.js';
import { Stage, type Actor, type Parts } from './stage.js';

/**
 * Faults go on until all leases that the last call may have are over, and for so long at least. Then everything must come to
 * rest.
 */
const FAULTS_GO_ON_MS = 10_000;
const CALM_MS = 5000;
/** After these each process lives, so that each lock is released and each acquire withdrawn, and no lease need expire for it. */
const LEAVE_NOTHING: readonly string[] = [
  'hold',
  'break',
  'break after',
  'lose',
  'reset',
  'cut',
  'block',
  'rate',
  'call',
  'stop server',
];
/** Requests are repeated so long at most. */
const REPAIR_MS = 5000;
/** How often to look whether the servers have forgotten all. */
const LOOK_EVERY_MS = 2000;
/** Without any call that moves for so long, beside the longest work and all pauses, something hangs. */
const PATIENCE_MS = 30_000;

export interface Run {
  readonly history: History;
  /** Two runs of one plan have the same. */
  readonly hash: string;
  readonly callbacks: number;
}

/** Runs a plan to its end: calls and faults, then calm, rest and close. */
export async function runPlan(plan: Plan, backend: Backend): Promise<Run> {
  const dice = new Dice(`run ${plan.seed}`);
  const kernel = new Kernel(dice);
  const history = new History(kernel);
  const network = new Network(kernel, plan.latency);
  const disturb = (kind: string) => history.disturbances.push({ kind, at: kernel.now, to: kernel.now });
  const world = { kernel, network, dice: dice.fork('store'), disturb };
  const { storeOptions } = plan;
  const handOffMs = backend.handOffMs?.(longestLatency(plan), storeOptions) ?? Infinity;
  const messageLagMs = backend.messageLagMs?.(storeOptions) ?? 0;
  const running = backend.open(world, storeOptions);
  running.servers.forEach((server, i) => (server.rate = plan.serverRates?.[i] ?? 1));
  history.losses = running.losses;
  if (backend.tellsGaps) history.toldAfterGapMs = toldAfterGapMs(plan);
  // A quorum gives a request twice the time of a node.
  history.commandTimeoutMs = (plan.store === 'quorum' ? 2 : 1) * storeOptions.commandTimeoutMs;
  history.isToldLate =
    messageLagMs > maxNoticeMs(storeOptions.commandTimeoutMs) - storeOptions.commandTimeoutMs / 2;
  history.tooFewReplicas = running.tooFewReplicas ?? [];
  history.expired = running.expired ?? [];
  const { hasSessions = false, givesNoTickets = false, servesInTurn = false } = backend;
  const parts: Parts = {
    kernel,
    network,
    history,
    dice,
    handOffMs,
    roundTripMs: longestRoundTripMs(plan, backend),
    messageLagMs,
    hasSessions,
    givesNoTickets,
    servesInTurn,
    backend: running,
  };
  const stopWatching = watchRejections(history, kernel);
  try {
    await runAll(plan, parts);
  } catch (error) {
    history.violate('progress', String((error as Error).stack));
  } finally {
    stopWatching();
  }
  history.endedAt = kernel.now;
  return { history, hash: kernel.hash.toString(16), callbacks: kernel.callbacks };
}

async function runAll(plan: Plan, parts: Parts): Promise<void> {
  const { kernel, history } = parts;
  const stage = new Stage(plan, parts);
  const faults = new Faults(plan, stage);
  const elections = new Elections(plan, stage);
  elections.begin();
  const onces = new Onces(plan, stage);
  onces.begin();
  const toStart = new Set(plan.calls);
  plan.calls.forEach((call, i) => {
    const { process, atMs, ...asking } = call;
    kernel.at(atMs, () => {
      // A process that came back goes on with the calls of the one that crashed or was replaced.
      const actor = stage.latest(process);
      if (actor.process.state === 'dead') return toStart.delete(call);
      actor.process.onEnd(() => toStart.delete(call));
      return actor.process.receive(() => {
        toStart.delete(call);
        void new Program(stage, actor, `${i + 1}`).run(asking);
      });
    });
  });
  const lastCallAt = Math.max(0, ...plan.calls.map(({ atMs }) => atMs));
  const faultsEndAt = lastCallAt + Math.max(FAULTS_GO_ON_MS, longestLeaseMs(plan));
  kernel.at(faultsEndAt, () => {
    faults.end();
    stage.parts.backend.calm?.();
    history.calmFrom = kernel.now;
    history.say('the faults are over');
  });
  // Asked after each callback. A call that is over stays so.
  let over = 0;
  const areAllOver = (): boolean => {
    for (let call = history.calls[over]; call && isDone(call); call = history.calls[over]) over += 1;
    return over === history.calls.length;
  };
  const isOver = () =>
    toStart.size === 0 &&
    onces.areOver &&
    kernel.now >= elections.lastsUntil &&
    areAllOver() &&
    areRunning(stage);
  const patienceMs = longestMs(plan) + PATIENCE_MS;
  const pausedMs = () => history.pauses.reduce((sum, { from, to }) => sum + to - from, 0);
  const isStuck = () => {
    const stillMs = kernel.now - Math.max(history.movedAt, faultsEndAt) - patienceMs;
    return stillMs > 0 && stillMs > pausedMs();
  };
  await kernel.run(Infinity, () => isOver() || isStuck());
  for (const call of history.calls) {
    if (!isDone(call))
      history.violate(
        'progress',
        `call ${call.call} of ${call.process} for ${call.keys.join('+')} is not over`,
      );
  }
  onces.end();
  faults.end();
  stage.parts.backend.calm?.();
  await elections.end();
  if (history.violations.length > 0) return;
  await comeToRest(plan, stage);
}

/** No lease may be left, then no timer and no connection. */
async function comeToRest(plan: Plan, stage: Stage): Promise<void> {
  const { kernel, history, backend, network } = stage.parts;
  history.say('all calls are over');
  // A message that is held arrives then, and the end of its connection behind it. A loop that is blocked goes on.
  const isOverAt = [...history.disturbances, ...history.pauses].map(({ to }) => to);
  const arrivedAt = Math.max(kernel.now, ...isOverAt);
  if (plan.faults.every(({ act }) => LEAVE_NOTHING.includes(act.do))) {
    const { commandTimeoutMs } = plan.storeOptions;
    await kernel.run(arrivedAt + longestMinimumHoldMs(plan) + REPAIR_MS + 4 * commandTimeoutMs);
    for (const key of new Set(plan.calls.flatMap((it) => namesIn(it, stage)))) {
      for (const [owner, leftMs] of backend.holdersOf?.(key) ?? [])
        if (leftMs > 0) history.violate('rest', `nobody has ${key}, and the servers keep it for ${owner}`);
    }
  }
  const leasesMs = longestLeaseMs(plan) + setBackMs(plan) + CALM_MS;
  const repairedAt = arrivedAt + REPAIR_MS + 4 * plan.storeOptions.commandTimeoutMs;
  await kernel.run(Math.min(repairedAt, arrivedAt + leasesMs));
  // Where nothing is left, sessions and presences alone are renewed until the longest lease is over, which takes a tenth of a history.
  while (kernel.now < arrivedAt + leasesMs && backend.leftovers().length > 0)
    await kernel.run(Math.min(kernel.now + LOOK_EVERY_MS, arrivedAt + leasesMs));
  if (plan.faults.some(({ act }) => act.do === 'forget')) {
    await askForEachKey(stage, plan);
    // The name of a process that has waited meanwhile stays as long as a lease.
    await kernel.run(kernel.now + leasesMs);
  }
  for (const left of backend.leftovers()) history.violate('rest', `the servers still have ${left}`);
  await callInCalm(stage);
  // A connection that is silent for good brings no notification, and the next recheck has to do.
  const isLost = plan.faults.some(({ act }) => act.do === 'lose');
  const hasScenes = !isLost && plan.calm !== 'without scenes';
  if (hasScenes) {
    await play(stage, readersInCalm);
    await play(stage, downgradeInCalm);
    await play(stage, crowdInCalm);
    await play(stage, limitInCalm);
    await play(stage, takeoverInCalm, plan);
    await play(stage, seenInCalm);
    await play(stage, leaderInCalm);
    await play(stage, endsInCalm);
    await play(stage, passedInCalm, plan.watchdogTimeoutMs);
    await play(stage, onceInCalm, plan.watchdogTimeoutMs);
    if (stage.parts.hasSessions) {
      await play(stage, severalInCalm);
      await play(stage, askedOnceInCalm);
    }
    if (stage.parts.servesInTurn) {
      await play(stage, newcomerInCalm);
      await play(stage, foreignInCalm);
      await play(stage, forcedInCalm, plan.watchdogTimeoutMs);
    }
    await play(stage, goneInCalm, plan.watchdogTimeoutMs);
    if (stage.parts.servesInTurn) await play(stage, deadPermitInCalm, plan.watchdogTimeoutMs);
  }
  if (hasScenes) await play(stage, sweepInCalm, plan.watchdogTimeoutMs);
  if (hasScenes) await play(stage, drainInCalm);
  const living = stage.actors.filter(({ process }) => process.state === 'running');
  let closed = 0;
  for (const { process, services } of living)
    process.receive(() => void Promise.all(services.map((it) => it.close())).then(() => (closed += 1)));
  await kernel.run(kernel.now + 60_000, () => closed === living.length);
  if (closed < living.length) history.violate('rest', 'close() has not resolved after a minute');
  await kernel.run(kernel.now + CALM_MS);
  for (const { process } of living) {
    if (process.pendingTimers > 0)
      history.violate('rest', `${process.name} keeps ${process.pendingTimers} timers`);
  }
  // The end of a connection waits behind a message that is held.
  const isUnderWay = history.disturbances.some(
    ({ kind, to }) => kind === 'hold' && to + CALM_MS > kernel.now,
  );
  if (network.openConnections > 0 && !isUnderWay && !isLost)
    history.violate('rest', `${network.openConnections} connections stay open`);
}

/** Counts a scene if any time passes in it. */
async function play<Rest extends readonly unknown[]>(
  stage: Stage,
  scene: (stage: Stage, ...rest: Rest) => Promise<void>,
  ...rest: Rest
): Promise<void> {
  const { kernel } = stage.parts;
  const before = kernel.now;
  await scene(stage, ...rest);
  if (kernel.now > before) count(`scene in the calm: ${scene.name.replace(/InCalm$/, '')}`);
}

function isDone({ isOver, isCrashed, isStanding }: CallRecord): boolean {
  return isOver === true || isCrashed === true || isStanding === true;
}

function namesIn({ process, keys }: CallPlan, { actors }: Stage): readonly string[] {
  return keys.map((key) => nameOf(actors[process] as Actor, key));
}

function areRunning({ actors }: Stage): boolean {
  return actors.every(({ process }) => process.state !== 'stopped');
}

function watchRejections(history: History, kernel: Kernel): () => void {
  const onRejection = (error: unknown) =>
    history.violate(
      'errors',
      `${kernel.current?.name} left a rejection unhandled: ${String((error as Error)?.stack ?? error)}`,
    );
  const onException = (error: Error) =>
    history.violate('errors', `${kernel.current?.name} threw: ${error.stack}`);
  process.on('unhandledRejection', onRejection);
  process.on('uncaughtException', onException);
  return () => {
    process.off('unhandledRejection', onRejection);
    process.off('uncaughtException', onException);
  };
}
