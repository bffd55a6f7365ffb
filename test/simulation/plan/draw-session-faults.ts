import type { Asking, Act, FaultPlan, Step, Trigger } from './plan.js';
import type { FaultFrame } from './draw-faults.js';

type Draw = (frame: FaultFrame) => readonly FaultPlan[];

/** A leader that is cut off from the others goes on for a while beside the next one. */
const oldLeader: Draw = (frame) => {
  const { dice, servers, watchdogTimeoutMs } = frame;
  const when = onGrant(frame);
  const afterMs = dice.scale(1, 500);
  if (servers === 1 || dice.happens(0.5))
    return [{ when, afterMs, act: { do: 'refuse', server: 0, ms: dice.int(1000, 6000) } }];
  // It stands still, and its client can reach no other.
  const ms = dice.int(50, 0.8 * watchdogTimeoutMs);
  const cut = (only: number): FaultPlan => ({
    when,
    afterMs,
    act: { do: 'cut', who: 'anyone', ms: ms + dice.int(100, 2000), only },
  });
  return [{ when, afterMs, act: { do: 'stop server', server: 0, ms } }, cut(1), cut(2)];
};

/** The reply to the opening of a session is late, and its client acquires at once. */
const lateOpening: Draw = (frame) => {
  const { dice, processes, commandTimeoutMs } = frame;
  const process = dice.int(0, processes - 1);
  const held: Act = { do: 'hold', ms: dice.int(commandTimeoutMs / 4, 1.5 * commandTimeoutMs) };
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

/** The end of a lease waits behind an `extend` that was asked for in time, as a reading before them is late. */
const lateExtension: Draw = (frame) => {
  const { dice, processes, keys } = frame;
  const process = dice.int(0, processes - 1);
  const key = dice.pick(keys);
  const leaseMs = dice.int(800, 3000);
  const leftMs = dice.int(70, 200);
  const looks: Asking = { ...asking(frame, {}), keys: [key], work: [{ do: 'inspect' }] };
  const work: readonly Step[] = [
    { do: 'sleep', ms: leaseMs - leftMs },
    { do: 'beside', call: looks },
    { do: 'sleep', ms: dice.scale(1, 20) },
    { do: 'extend', ms: leaseMs },
    { do: 'sleep', ms: leaseMs / 2 },
  ];
  const call: Asking = { ...asking(frame, { leaseMs, waitMs: 1000 }), keys: [key], work };
  const reading: Trigger = { message: 'read', nth: 1, of: process, since: { event: 'acquired', nth: 1 } };
  return [
    callAt(dice.int(0, 200), process, call),
    { when: reading, act: { do: 'hold', ms: leftMs + dice.int(0, 100) } },
  ];
};

export const SESSION_SCENES: readonly Draw[] = [
  oldLeader,
  oldLeader,
  lateOpening,
  openedTwice,
  troubledWrite,
  goneHolder,
  forgotten,
  lateExtension,
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
