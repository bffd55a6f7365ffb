import { quorum } from '../backends/quorum/quorum.js';
import { redis } from '../backends/redis/redis.js';
import { SCRIPTS_FLUSHED } from '../backends/redis/server-events.js';
import { Dice } from '../kernel/dice.js';
import { drawPlan } from '../plan/draw.js';
import type { Act, Asking, CallEvent, CallPlan, FaultPlan, Plan, Step, Trigger } from '../plan/plan.js';
import type { Contestant } from './contestant.js';

/** The lease that the README of redlock uses. Shorter ones make no library look better. */
const MIN_LEASE_MS = 5000;
const MAX_WAIT_MS = 60_000;
const DEFAULT_WAIT_MS = 3000;

/** The message of our library that each event of a call brings about: others call theirs differently, and send them at the same time. */
const EVENT_BEFORE: Readonly<Record<string, CallEvent>> = {
  acquire: 'asked',
  renew: 'acquired',
  release: 'ended',
};

/** The plan of a seed of our own simulation, reduced to what all contestants offer: one exclusive lock after the other. */
export function drawReduced(contestant: Contestant, seed: string): Plan {
  const { servers } = contestant;
  const plan = drawPlan(servers === 3 ? quorum : redis, seed);
  const leaseMs = Math.max(MIN_LEASE_MS, plan.watchdogTimeoutMs);
  const slower = leaseMs / plan.watchdogTimeoutMs;
  const {
    afterCrash = 'everything',
    replicas = 0,
    replicaLagMs = 0,
    reachable,
    replicaStallMs,
  } = plan.storeOptions;
  const hasTimeout = new Dice(`timeout ${seed}`).happens(0.5);
  return {
    store: contestant.name,
    seed,
    watchdogTimeoutMs: leaseMs,
    storeOptions: {
      commandTimeoutMs: plan.storeOptions.commandTimeoutMs,
      clientTimeout: hasTimeout,
      afterCrash,
      replicas,
      replicaLagMs,
      ...(reachable !== undefined && { reachable }),
      ...(replicaStallMs !== undefined && { replicaStallMs }),
    },
    latency: plan.latency,
    serverRates: (plan.serverRates ?? []).slice(0, servers),
    processes: plan.processes.map(({ rate, offsetMs, timeOfDayDrifts }) => ({
      rate,
      offsetMs,
      services: 1,
      ...(timeOfDayDrifts && { timeOfDayDrifts }),
    })),
    calls: plan.calls.map((call): CallPlan => ({
      ...reducedCall(call, slower),
      process: call.process,
      atMs: Math.round(call.atMs * slower),
    })),
    faults: plan.faults.flatMap((fault) => reducedFault(fault, slower, servers)),
    calm: 'without scenes',
  };
}

function reducedCall({ keys, options, work }: Asking, slower: number): Asking {
  const { waitMs = DEFAULT_WAIT_MS } = options;
  return {
    service: 0,
    how: 'withLock',
    keys: keys.slice(0, 1),
    options: { waitMs: waitMs === 'Infinity' ? MAX_WAIT_MS : Math.min(waitMs, MAX_WAIT_MS) },
    work: work.flatMap((step) => reducedStep(step, slower)),
  };
}

function reducedStep(step: Step, slower: number): readonly Step[] {
  if (!('ms' in step)) return [];
  const ms = Math.round(step.ms * slower);
  if (step.do === 'extend' || step.do === 'block') return [{ do: step.do, ms }];
  return [{ do: 'sleep', ms }];
}

function reducedFault(fault: FaultPlan, slower: number, servers: number): readonly FaultPlan[] {
  const act = reducedAct(fault.act, slower, servers);
  if (!act) return [];
  const afterMs = Math.round((fault.afterMs ?? 0) * slower);
  return [{ when: reducedTrigger(fault.when, slower), act, ...(afterMs > 0 && { afterMs }) }];
}

function reducedTrigger(when: Trigger, slower: number): Trigger {
  if ('atMs' in when) return { atMs: Math.round(when.atMs * slower) };
  if (!('message' in when) || when.message === 'connect') return when;
  const isReply = /^re:|^any reply$|^granted$|^contended$|^lost$|^recheck$/.test(when.message);
  const message = isReply ? 'any reply' : 'any request';
  const event = EVENT_BEFORE[when.message.replace(/^re:/, '')];
  if (when.since || !event) return { ...when, message };
  return { message, nth: 1, of: when.of, since: { event, nth: when.nth } };
}

function reducedAct(act: Act, slower: number, servers: number): Act | undefined {
  switch (act.do) {
    case 'lose':
      // A connection that is silent for good ends after a quarter of an hour at most, by TCP. No history is so long.
      return { do: 'break after' };
    case 'restart':
    case 'replace':
      return { ...act, do: 'restart', ms: Math.round(act.ms * slower), call: reducedCall(act.call, slower) };
    case 'call':
      return { ...act, call: reducedCall(act.call, slower) };
    case 'server event':
      return act.event === SCRIPTS_FLUSHED ? { ...act, server: act.server % servers } : undefined;
    case 'drain':
    case 'close':
    case 'force':
    case 'abort':
    case 'resign':
    case 'stand':
    case 'stand down':
      return undefined;
    default: {
      const scaled = 'ms' in act ? { ...act, ms: Math.round(act.ms * slower) } : act;
      return 'server' in scaled ? { ...scaled, server: scaled.server % servers } : scaled;
    }
  }
}
