import { answers } from './rules/answers.mjs';
import { exits, injections, remains } from './rules/ends.mjs';
import { errors } from './rules/errors.mjs';
import { exclusion, overlaps } from './rules/exclusion.mjs';
import { fairness } from './rules/fairness.mjs';
import { goals } from './rules/goals.mjs';
import { liveness, recoveries, service } from './rules/liveness.mjs';
import { load } from './rules/load.mjs';
import { losses } from './rules/losses.mjs';
import { nodes } from './rules/nodes.mjs';
import { order } from './rules/order.mjs';
import { register } from './rules/register.mjs';
import { rejections } from './rules/rejections.mjs';
import { tokens } from './rules/tokens.mjs';
import { trialRecord } from './trial-record.mjs';

/** Each takes what the history tells and gives sentences about what should not have happened. */
const RULES = {
  exclusion,
  tokens,
  order,
  register,
  liveness,
  goals,
  service,
  fairness,
  nodes,
  answers,
  losses,
  errors,
  exits,
  rejections,
  load,
  remains,
  injections,
};

/**
 * Judges a history, and nothing but the history.
 *
 * @type {import('../index.d.mts').checkHistory}
 */
export function checkHistory(records) {
  const trial = trialRecord(records);
  const findings = Object.entries(RULES).flatMap(([rule, judge]) =>
    judge(trial).map((finding) => ({ rule, finding })),
  );
  return { findings, figures: figuresOf(trial) };
}

/** @param {import('../index.d.mts').TrialRecord} trial */
function figuresOf(trial) {
  const { calls, faults, register: requests, settings } = trial;
  const outcomes = {};
  for (const { outcome = 'killed' } of calls) outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  return {
    store: settings.store ?? 'redis',
    kind: settings.kind,
    seed: settings.seed,
    faults: faults.length,
    sections: calls.filter(({ enteredAt }) => enteredAt !== undefined).length,
    recoveryMs: recoveries(trial),
    told: calls.filter(({ toldAt, toldWhy }) => toldAt !== undefined && toldWhy !== 'shutdown').length,
    overlaps: overlaps(trial),
    refused: requests.filter(({ accepted }) => !accepted).length,
    outcomes,
  };
}
