import type { Asking, Act, FaultPlan, Step, Trigger } from './plan.js';
import type { FaultFrame } from './draw-faults.js';

type Draw = (frame: FaultFrame) => readonly FaultPlan[];

/**
 * A leader that is cut off from the others, or stood still until they had another one, goes on for a while. One who holds can reach no
 * other server.
 */
const oldLeader: Draw = (frame) => {
  const { dice, servers, processes, watchdogTimeoutMs } = frame;
  const process = dice.int(0, processes - 1);
  const atMs = dice.int(1000, 3000);
  const afterMs = atMs + dice.int(50, 500);
  const work: Step = { do: 'sleep', ms: dice.int(2000, 8000) };
  const act: Act = dice.happens(0.5)
    ? { do: 'refuse', server: 0, ms: dice.int(2000, 6000) }
    : { do: 'stop server', server: 0, ms: dice.int(50, 0.8 * watchdogTimeoutMs) };
  const others = Array.from({ length: servers - 1 }, (_, i): FaultPlan => {
    return { when: { atMs: 0 }, act: { do: 'cut', who: process, ms: afterMs + 10_000, only: i + 1 } };
  });
  const call = { ...asking(frame, { waitMs: 5000 }), work: [work] };
  return [...others, callAt(atMs, process, call), { when: { atMs: afterMs }, act }];
};

/** The reply to the opening of a session is late, and its client acquires at once. */
const lateOpening: Draw = (frame) => {
  const { dice, processes, commandTimeoutMs } = frame;
  const process = dice.int(0, processes - 1);
  const held: Act = { do: 'hold', ms: dice.int(commandTimeoutMs / 3, 0.9 * commandTimeoutMs) };
  return [
    { when: { message: 're:open session', nth: 1, of: process }, act: held },
    callAt(dice.int(0, 50), process, asking(frame, { waitMs: 3000 })),
  ];
};

/** What opened a session is executed once more, and a write of its first epoch after that. */
const openedTwice: Draw = (frame) => {
  const { dice, processes, kinds } = frame;
  if (!kinds.includes('mailbox')) return lateOpening(frame);
  const process = dice.int(0, processes - 1);
  const askedAtMs = dice.int(800, 2000);
  const untilMs = dice.int(300, 1500);
  const opening: Trigger = { message: 'mailbox', nth: 1, of: process };
  const write: Trigger = {
    message: 'take',
    nth: 1,
    of: process,
    since: { event: 'asked', nth: 1 },
  };
  return [
    { when: opening, act: { do: 'hold', ms: askedAtMs + untilMs } },
    { when: opening, afterMs: dice.scale(1, 20), act: { do: 'reset', who: process } },
    callAt(askedAtMs, process, asking(frame, { waitMs: 0 })),
    { when: write, act: { do: 'hold', ms: untilMs + dice.int(50, 1000) } },
    { when: write, afterMs: dice.scale(1, 20), act: { do: 'reset', who: process } },
  ];
};

/** A server is in trouble while one asks once, so that its write may be executed although it fails. */
const troubledWrite: Draw = (frame) => {
  const { dice, commandTimeoutMs } = frame;
  const when: Trigger = { event: 'asked', nth: dice.scale(1, 12), of: 'anyone' };
  return [
    { when, act: { do: 'refuse', server: 0, ms: dice.int(commandTimeoutMs, 4 * commandTimeoutMs) } },
    { when, act: { do: 'call', who: 'anyone', call: asking(frame, { waitMs: 0 }) } },
  ];
};

/** One who holds dies, and another asks again and again until its session is over. */
const goneHolder: Draw = (frame) => {
  const { dice, watchdogTimeoutMs, processes } = frame;
  const when = onGrant(frame);
  const afterMs = dice.scale(1, 500);
  const waiter = dice.int(0, processes - 1);
  const everyMs = watchdogTimeoutMs / 36;
  const asks = Array.from({ length: 8 }, (_, i): FaultPlan => ({
    when,
    afterMs: Math.round(afterMs + (watchdogTimeoutMs * 5) / 6 + i * everyMs),
    act: { do: 'call', who: waiter, call: asking(frame, { waitMs: dice.scale(10, 300) }) },
  }));
  return [{ when, afterMs, act: { do: 'crash', who: 'anyone' } }, ...asks];
};

/** Servers have forgotten sessions whose clients know nothing of that, and ask at once. */
const forgotten: Draw = (frame) => {
  const { dice, lengthMs, processes } = frame;
  const atMs = dice.int(0, lengthMs);
  const ask = (process: number): FaultPlan =>
    callAt(atMs + dice.scale(10, 1000), process, asking(frame, { waitMs: dice.pick([0, 1000, 5000]) }));
  return [
    { when: { atMs }, act: { do: 'forget', how: dice.pick(['empty', 'stale']) } },
    ...Array.from({ length: processes }, (_, i) => ask(i)),
  ];
};

/** A process releases, and closes while the rest of a minimum hold is left. Another waits. */
const closedInHold: Draw = (frame) => {
  const { dice, processes, watchdogTimeoutMs } = frame;
  const process = dice.int(0, processes - 1);
  const atMs = dice.int(500, 2000);
  const holdAtLeastMs = dice.int(1000, Math.min(3000, watchdogTimeoutMs));
  const call = asking(frame, { waitMs: 1000, holdAtLeastMs });
  const another: Asking = { ...call, options: { ...call.options, waitMs: 5000, holdAtLeastMs: 0 } };
  return [
    callAt(atMs, process, { ...call, work: [] }),
    callAt(atMs + dice.int(20, 500), (process + 1) % processes, another),
    {
      when: { event: 'ended', nth: 1, of: process },
      afterMs: dice.scale(1, 300),
      act: { do: 'close', who: process },
    },
  ];
};

export const SESSION_SCENES: readonly Draw[] = [
  oldLeader,
  oldLeader,
  oldLeader,
  lateOpening,
  openedTwice,
  troubledWrite,
  goneHolder,
  forgotten,
  closedInHold,
];

function onGrant({ dice }: FaultFrame): Trigger {
  return { event: 'acquired', nth: dice.scale(1, 12), of: 'anyone' };
}

function callAt(atMs: number, who: number, call: Asking): FaultPlan {
  return { when: { atMs }, act: { do: 'call', who, call } };
}

/** One more call for one of the keys. */
function asking({ dice, keys, claimOf }: FaultFrame, options: Asking['options']): Asking {
  const key = dice.int(0, keys.length - 1);
  return {
    service: 0,
    how: 'withLock',
    keys: [keys[key] as string],
    options: { ...claimOf(key), ...options },
    work: [{ do: 'sleep', ms: dice.scale(1, 500) }],
  };
}
