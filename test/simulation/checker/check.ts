import type { Backend } from '../backends/backend.js';
import type { History, Violation } from '../history/history.js';
import { toldWithinMs } from '../history/told.js';
import {
  longestLatency,
  longestLeaseMs,
  longestRoundTripMs,
  setBackMs,
  shortestLeaseMs,
} from '../plan/longest.js';
import type { Plan } from '../plan/plan.js';
import { checkAway } from './away.js';
import { checkDeadlocks } from './deadlocks.js';
import { checkDrain } from './drain.js';
import { checkEarlyEnd } from './early-end.js';
import { checkEarliness } from './earliness.js';
import { checkErrors } from './errors.js';
import { checkHandOff } from './hand-off.js';
import { checkExclusion } from './exclusion.js';
import { checkFailover } from './failover.js';
import { checkMinimumHold } from './minimum-hold.js';
import { checkKeptPlaces } from './kept-places.js';
import { checkKinds } from './kinds.js';
import { checkNeedlessFailure } from './needless-failure.js';
import { checkNeedlessLoss } from './needless-loss.js';
import { checkLateReaders } from './late-readers.js';
import { checkLateness } from './lateness.js';
import { checkNotified } from './notified.js';
import { checkOvertaken } from './overtaken.js';
import { checkOrder } from './order.js';
import { checkLimit, checkRefusal, checkStaleRefusal } from './refusal.js';
import { checkTakeover } from './takeover.js';
import { checkStarvation, patienceOf } from './starvation.js';
import { checkTokens } from './tokens.js';
import { checkTurns } from './turns.js';

/** A release takes turns with the writes of others. */
const RELEASE_ROUND_TRIPS = 10;

/** What a history breaks of the promises. Judges by the history alone. */
export function check(history: History, plan: Plan, backend: Backend): readonly Violation[] {
  const { commandTimeoutMs, replicaLagMs = 0, replicaStallMs = 0, minReplicaAcks = 0 } = plan.storeOptions;
  // A grant is answered when so many replicas have it.
  const acknowledgedMs = Number(minReplicaAcks) > 0 ? Number(plan.storeOptions['replicaTimeoutMs']) : 0;
  const { commandsPerCall } = backend;
  // docs/guarantees.md, liveness: with `minReplicaAcks` it is one command more.
  const commandsInCalm = (backend.commandsInCalm ?? 1) + (Number(minReplicaAcks) > 0 ? 1 : 0);
  const latency = longestLatency(plan);
  const roundTripMs = longestRoundTripMs(plan, backend);
  const handOffMs = backend.handOffMs?.(latency, plan.storeOptions) ?? Infinity;
  // A grant that comes after its lease is asked for again.
  const areLeasesLong = handOffMs < shortestLeaseMs(plan);
  const longestMs = longestLeaseMs(plan) + setBackMs(plan);
  const guardMs = Number(plan.storeOptions['restartGuardMs'] ?? 0);
  return [
    ...history.violations,
    ...checkExclusion(history, toldWithinMs(plan)),
    ...checkFailover(history, {
      watchdogTimeoutMs: plan.watchdogTimeoutMs,
      answerMs: 2 * commandTimeoutMs,
      earlyMs: plan.watchdogTimeoutMs / 3 + 2 * roundTripMs + Number(replicaLagMs) + Number(replicaStallMs),
    }),
    ...checkTokens(history, toldWithinMs(plan)),
    ...checkErrors(history),
    ...checkDrain(history),
    ...checkTakeover(history, {
      handOffMs,
      commandTimeoutMs: history.commandTimeoutMs,
      guardMs,
    }),
    ...checkDeadlocks(history),
    ...checkMinimumHold(history, roundTripMs),
    ...checkNeedlessLoss(history, {
      watchdogTimeoutMs: plan.watchdogTimeoutMs,
      commandTimeoutMs,
      roundTripMs,
    }),
    ...checkNotified(history, toldWithinMs(plan)),
    ...(backend.hasSessions
      ? []
      : checkEarlyEnd(history, { roundTripMs: roundTripMs + acknowledgedMs, commandTimeoutMs })),
    ...checkAway(history),
    ...checkEarliness(history),
    ...checkLateness(history, {
      commandTimeoutMs,
      commandsPerCall,
      commandsInCalm,
      sendsInOrder: (backend.commandsInCalm ?? 1) > 1,
    }),
    ...(areLeasesLong ? checkHandOff(history, { handOffMs, commandTimeoutMs, longestMs, guardMs }) : []),
    ...(areLeasesLong && !backend.givesNoTickets ? checkOrder(history, handOffMs) : []),
    ...(areLeasesLong && !backend.givesNoTickets ? checkLateReaders(history, handOffMs) : []),
    ...(areLeasesLong && !backend.givesNoTickets ? checkKeptPlaces(history, { handOffMs, roundTripMs }) : []),
    ...(areLeasesLong && backend.servesInTurn ? checkTurns(history, handOffMs) : []),
    ...(areLeasesLong
      ? checkNeedlessFailure(history, { commandTimeoutMs, roundTripMs, guardMs, longestMs })
      : []),
    ...checkRefusal(history, {
      handOffMs: RELEASE_ROUND_TRIPS * roundTripMs,
      commandTimeoutMs,
      longestMs,
      guardMs,
    }),
    ...checkLimit(history, { handOffMs: RELEASE_ROUND_TRIPS * roundTripMs, commandTimeoutMs, longestMs }),
    ...checkKinds(history, { answerMs: commandsPerCall * commandTimeoutMs }),
    ...checkStaleRefusal(history),
    ...checkStarvation(history, { longestMs, commandTimeoutMs, roundTripMs }),
    ...checkOvertaken(history, {
      repairMs: patienceOf({ longestMs, commandTimeoutMs, roundTripMs }),
      roundTripMs,
      services: plan.processes.reduce((sum, it) => sum + it.services, 0),
      far: new Set(
        plan.processes.flatMap(({ farMs }, i) => (farMs === undefined ? [] : [`P${i}`, `P${i}'`])),
      ),
    }),
  ];
}
