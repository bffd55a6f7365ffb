/**
 * The record of a trial, made from its history: calls with all that happened to them, processes, faults.
 *
 * @param {readonly import('../index.d.mts').HistoryRecord[]} records in order @returns {import('../index.d.mts').TrialRecord}
 */
export function trialRecord(records) {
  const of = (...types) => records.filter(({ type }) => types.includes(type));
  const settings = of('trial')[0];
  if (!settings) throw new Error('A history begins with a record of type "trial".');
  const apps = new Map();
  for (const { who, at } of of('started'))
    apps.set(who, { name: who, startedAt: at, endedAt: Infinity, pauses: [] });
  for (const { app, at, ...exit } of of('exited')) Object.assign(apps.get(app) ?? {}, { endedAt: at, exit });
  for (const { app, at } of of('closing')) Object.assign(apps.get(app) ?? {}, { closingAt: at });
  for (const { who, at, tookMs } of of('closed'))
    Object.assign(apps.get(who) ?? {}, { closedAt: at, tookMs });
  for (const { who, from, ms } of of('paused')) {
    // No fault touches the runner. When it did not run, the machine was too busy for all processes.
    const paused = who === 'runner' ? [...apps.values()] : [apps.get(who)];
    for (const app of paused) app?.pauses.push({ from, to: from + ms });
  }
  const faults = of('fault');
  for (const { app, freezes, from, to } of faults) if (freezes) apps.get(app)?.pauses.push({ from, to });
  return {
    settings,
    apps,
    faults,
    calls: callsOf(records),
    register: of('read', 'write').filter(({ who }) => who === 'witness'),
    remains: of('remains'),
    samples: of('sample'),
    nodes: of('node'),
    unhandled: of('unhandled'),
    failedFaults: of('fault-failed'),
    calmFrom: of('calm')[0]?.at,
    closingFrom: of('closing-all')[0]?.at ?? Infinity,
    endedAt: records.at(-1).at,
  };
}

/** @param {readonly any[]} records */
function callsOf(records) {
  const calls = new Map();
  for (const record of records) {
    const { type, call: id, at, who } = record;
    if (type === 'asked') {
      const { key, mode, via, waitMs, permits, weight = 1, fair } = record;
      calls.set(id, {
        id,
        app: who,
        key,
        mode,
        via,
        waitMs: waitMs ?? Infinity,
        permits,
        weight,
        fair,
        askedAt: at,
      });
    }
    const call = calls.get(id);
    if (call) take[type]?.(call, record);
  }
  return withOwners([...calls.values()]);
}

/** Calls of one owner share its stay with the key: what one of them is passed may have been granted before it was asked for. */
function withOwners(calls) {
  const since = new Map();
  for (const { owner, askedAt } of calls) since.set(owner, Math.min(since.get(owner) ?? Infinity, askedAt));
  for (const call of calls) call.ownerFrom = call.owner === undefined ? call.askedAt : since.get(call.owner);
  return calls;
}

/** The fields that each record adds to its call. */
const take = {
  entered(call, { at, token, owner, believedAt }) {
    Object.assign(call, { enteredAt: at, token, owner, believedFrom: believedAt, believedTo: believedAt });
  },
  read: believe,
  write: believe,
  told: (call, { at, reason }) => Object.assign(call, { toldAt: at, toldWhy: reason }),
  left(call, record) {
    call.leftAt = record.at;
    believe(call, record);
  },
  settled: (call, { at, outcome, reason, detail }) =>
    Object.assign(call, { settledAt: at, outcome, reason, detail }),
};

function believe(call, { believedAt }) {
  if (typeof believedAt === 'number') call.believedTo = Math.max(call.believedTo ?? -Infinity, believedAt);
}
