import type { Dice } from '../kernel/dice.js';
import { SESSION_SCENES } from './draw-session-faults.js';
import type { Act, Asking, CallOptionsPlan, FaultPlan, Trigger, Who } from './plan.js';

export interface FaultFrame {
  readonly dice: Dice;
  readonly kinds: readonly string[];
  /** The requests among them that change a lock, if faults are aimed at these. */
  readonly writes: readonly string[];
  readonly processes: number;
  readonly servers: number;
  /** What only this kind of server does. */
  readonly serverEvents: readonly string[];
  readonly keys: readonly string[];
  /** How the calls of a plan ask for its n-th key. */
  readonly claimOf: (key: number) => CallOptionsPlan;
  readonly watchdogTimeoutMs: number;
  readonly commandTimeoutMs: number;
  readonly lengthMs: number;
  readonly mayForget: boolean;
  /** Locks live by the sessions of their clients. */
  readonly hasSessions: boolean;
  /** A server that crashes comes back without some of its data. */
  readonly losesByCrash: boolean;
}

type Draw = (frame: FaultFrame) => readonly FaultPlan[];

/** Most faults are aimed: at the holder, at the one who waits first, at one message. Few are not, as those find nothing rare. */
export function drawFaults(frame: FaultFrame): readonly FaultPlan[] {
  const { dice } = frame;
  if (dice.happens(0.1)) return [];
  const count = dice.scale(1, 12);
  // Several of few kinds go together better than one of each.
  const hasWrites = frame.writes.length > 0;
  const ofStore = [
    ...(frame.hasSessions ? SESSION_DRAWS : []),
    ...(frame.losesByCrash ? CRASH_DRAWS : []),
    ...(hasWrites ? WRITE_DRAWS : []),
    ...(frame.serverEvents.length > 0 ? EVENT_DRAWS : []),
    ...(frame.kinds.includes('subscribe') ? [forcedInGap, forcedInGap] : []),
  ];
  const ofNetwork = [...NETWORK_DRAWS, ...(hasWrites ? LATE_DRAWS : [])];
  const draws = dice.happens(0.3) ? ofNetwork : [...DRAWS, ...ofStore];
  const kinds = [dice.pick(draws), dice.pick(draws), dice.pick(draws)];
  const scene = frame.hasSessions && dice.happens(0.35) ? dice.pick(SESSION_SCENES)(frame) : [];
  return [...scene, ...Array.from({ length: count }, () => dice.pick(kinds)(frame)).flat()];
}

const messageFault: Draw = (frame) => {
  const { dice } = frame;
  const act: Act = dice.happens(0.4)
    ? { do: 'hold', ms: longMs(frame) }
    : { do: dice.pick(['lose', 'break', 'break after'] as const) };
  return [{ when: onMessage(frame), act }];
};

/** A request is under way for long on a connection that its process has given up: it is executed after what came later. */
const lateRequest: Draw = (frame) => {
  const { dice, watchdogTimeoutMs } = frame;
  const when = dice.happens(0.5) ? onMessage(frame) : sinceEvent(frame);
  const ms = dice.happens(0.5) ? withinCommandMs(frame) : dice.int(500, 2 * watchdogTimeoutMs);
  return [
    { when, act: { do: 'hold', ms } },
    { when, afterMs: dice.scale(1, 300), act: { do: 'reset', who: 'anyone' } },
  ];
};

/** One acquires, gives up, and releases on another connection, before its acquire is executed. Or its release is never executed. */
const lateAcquire: Draw = (frame) => {
  const { dice, keys } = frame;
  const asked = nth(dice);
  const event = { event: 'asked', nth: asked } as const;
  const key = dice.int(0, keys.length - 1);
  const call: Asking = {
    service: 0,
    how: dice.pick(['withLock', 'tryAcquire']),
    keys: [keys[key] as string],
    options: {
      ...frame.claimOf(key),
      waitMs: dice.pick([0, 0, dice.scale(1, 300)]),
      // So long that it is seen when it is left behind.
      leaseMs: dice.int(10_000, 60_000),
    },
    work: [{ do: 'sleep', ms: dice.scale(1, 100) }],
  };
  const ends = dice.happens(0.4);
  const since = ends ? { event: 'ended' as const, nth: 1 } : { event: 'asked' as const, nth: asked + 1 };
  const when: Trigger = { message: 'any request', nth: dice.pick([1, 1, 2]), of: 'anyone', since };
  const asks: FaultPlan = { when: { ...event, of: 'anyone' }, act: { do: 'call', who: 'anyone', call } };
  if (ends) return [asks, { when, act: { do: dice.pick(['lose', 'break']) } }];
  return [
    asks,
    { when, act: { do: 'hold', ms: withinCommandMs(frame) } },
    { when, afterMs: dice.scale(1, 20), act: { do: 'reset', who: 'anyone' } },
  ];
};

const pause: Draw = (frame) => [
  {
    when: trigger(frame),
    ...later(frame),
    act: { do: frame.dice.pick(['stop', 'suspend']), who: who(frame), ms: longMs(frame) },
  },
];

/** A machine that sleeps and whose clock is set meanwhile, or just before. */
const sleepAndClock: Draw = (frame) => {
  const { dice } = frame;
  const when = trigger(frame);
  const target = who(frame);
  const clockMs = longMs(frame) * dice.pick([-1, -1, -8, 1]);
  return [
    { when, act: { do: 'clock', who: target, ms: clockMs } },
    { when, ...later(frame), act: { do: 'suspend', who: target, ms: longMs(frame) } },
  ];
};

/** One who holds sleeps until others may have its lock, and its clock is set meanwhile, or just before. */
const sleepingHolder: Draw = (frame) => {
  const { dice, watchdogTimeoutMs } = frame;
  const when: Trigger = { event: 'acquired', nth: nth(dice), of: 'anyone' };
  const afterMs = dice.scale(1, watchdogTimeoutMs / 2);
  const ms = dice.int(watchdogTimeoutMs / 2, 2 * watchdogTimeoutMs);
  const clockMs = -Math.round(ms * dice.pick([0.5, 1.3, 3]));
  return [
    { when, afterMs, act: { do: 'suspend', who: 'anyone', ms } },
    ...(dice.happens(0.7)
      ? [
          {
            when,
            afterMs: Math.max(0, afterMs - dice.int(0, 20)),
            act: { do: 'clock', who: 'anyone', ms: clockMs },
          } as const,
        ]
      : []),
  ];
};

/** One who waits sleeps for longer than a lease, while messages for it are under way. */
const sleepingWaiter: Draw = (frame) => {
  const { dice, watchdogTimeoutMs } = frame;
  const when: Trigger = dice.happens(0.5)
    ? { event: 'asked', nth: nth(dice), of: 'waiter' }
    : { message: dice.pick(frame.kinds), nth: nth(dice), of: 'waiter' };
  const ms = dice.int(1000, Math.max(1500, 2 * watchdogTimeoutMs));
  const afterMs = dice.scale(1, 2000);
  const asksAgain: FaultPlan = {
    when,
    afterMs: afterMs + ms + 1,
    act: { do: 'call', who: 'anyone', call: further(frame) },
  };
  return [
    { when, afterMs, act: { do: 'suspend', who: 'anyone', ms } },
    ...(dice.happens(0.5) ? [asksAgain] : []),
  ];
};

/** What changes a lock is under way until after its caller has gone, on a connection that its process has replaced. */
const lateWrite: Draw = (frame) => {
  const { dice, watchdogTimeoutMs } = frame;
  const since = { event: dice.pick(['asked', 'asked', 'acquired', 'ended'] as const), nth: nth(dice) };
  const when = { message: dice.pick(frame.writes), nth: dice.int(1, 3), of: who(frame), since };
  return [
    { when, act: { do: 'hold', ms: dice.int(200, watchdogTimeoutMs) } },
    { when, afterMs: dice.scale(1, 100), act: { do: 'reset', who: 'anyone' } },
  ];
};

/** While one who waits asks again, another process asks for the first time. */
const overtaking: Draw = (frame) => {
  const { dice } = frame;
  const when = { message: dice.pick(frame.writes), nth: nth(dice), of: 'waiter' as const };
  const another = dice.int(0, frame.processes - 1);
  return [{ when, ...later(frame), act: { do: 'call', who: another, call: further(frame) } }];
};

/** Of a force: whether it names one owner. */
function drawNamed({ dice }: FaultFrame): { readonly isNamed?: true } {
  return dice.happens(0.5) ? { isNamed: true } : {};
}

/** A lock is taken by force, and the message that says so comes late or never. */
const forcedUnheard: Draw = (frame) => {
  const { dice } = frame;
  const when = { event: 'acquired' as const, nth: nth(dice), of: 'anyone' as const };
  const by = dice.pick(['anyone', dice.int(0, frame.processes - 1)] as const);
  const act: Act = dice.happens(0.5) ? { do: 'lose' } : { do: 'hold', ms: longMs(frame) };
  return [
    { when, ...later(frame), act: { do: 'force', who: by, key: dice.pick(frame.keys), ...drawNamed(frame) } },
    ...(dice.happens(0.6) ? [{ when: { message: 'lost', nth: 1, of: 'anyone' }, act } as const] : []),
  ];
};

/** The connection for messages breaks, and a lock is taken by force or taken over before the next one is there. */
const forcedInGap: Draw = (frame) => {
  const { dice } = frame;
  const when = { event: 'acquired' as const, nth: nth(dice), of: 'anyone' as const };
  const afterMs = dice.scale(1, 1000);
  const by = dice.int(0, frame.processes - 1);
  const key = dice.pick(frame.keys);
  return [
    { when, afterMs, act: { do: 'reset', who: 'anyone', kind: 'subscribe' } },
    { when, afterMs: afterMs + dice.scale(1, 60), act: { do: 'force', who: by, key } },
    ...(dice.happens(0.5)
      ? [
          {
            when,
            afterMs: afterMs + dice.scale(1, 200),
            act: { do: 'call', who: by, call: further(frame) },
          } as const,
        ]
      : []),
  ];
};

/** The clock of a server is set back while somebody holds, and one who has seen no token yet asks next. */
const serverBehind: Draw = (frame) => {
  const { dice } = frame;
  const when = { event: 'acquired' as const, nth: nth(dice), of: 'anyone' as const };
  const number = dice.int(0, frame.servers - 1);
  const another = dice.int(0, frame.processes - 1);
  return [
    { when, ...later(frame), act: { do: 'server clock', server: number, ms: -longMs(frame) } },
    {
      when,
      afterMs: dice.scale(1, 3000),
      act: { do: 'call', who: another, call: further(frame) },
    },
  ];
};

/** One more call for one of the keys. */
function further(frame: FaultFrame): Asking {
  const { dice } = frame;
  const key = dice.int(0, frame.keys.length - 1);
  return {
    service: 0,
    how: 'withLock',
    keys: [frame.keys[key] as string],
    options: { ...frame.claimOf(key), waitMs: dice.scale(10, 3000) },
    work: [{ do: 'sleep', ms: dice.scale(1, 500) }],
  };
}

/** The first messages after a grant or a release, as the reply that confirms it. */
const afterEvent: Draw = (frame) => {
  const [fault] = messageFault(frame) as readonly [FaultPlan];
  return [{ ...fault, when: sinceEvent(frame) }];
};

const loop: Draw = (frame) => [
  { when: trigger(frame), act: { do: 'block', who: who(frame), ms: longMs(frame) } },
];

const clock: Draw = (frame) => {
  const { dice } = frame;
  const act: Act = dice.happens(0.5)
    ? { do: 'clock', who: who(frame), ms: longMs(frame) * dice.pick([-1, 1, -20, 20]) }
    : { do: 'rate', who: who(frame), rate: 1 + (dice.random() - 0.5) * 0.008 };
  return [{ when: trigger(frame), act }];
};

/** The clock of one who holds is set by more than a lease, so that the time of day alone says that the lease is over. */
const holdersClock: Draw = (frame) => {
  const { dice, watchdogTimeoutMs } = frame;
  const when: Trigger = { event: 'acquired', nth: nth(dice), of: 'anyone' };
  const ms = dice.int(watchdogTimeoutMs / 2, 4 * watchdogTimeoutMs) * dice.pick([1, 1, -1]);
  return [{ when, ...later(frame), act: { do: 'clock', who: 'anyone', ms } }];
};

const link: Draw = (frame) => {
  const { dice, servers } = frame;
  const only = frame.writes.length > 0 && servers > 1 && dice.happens(0.7);
  const part = only ? { only: dice.int(0, servers - 1) } : {};
  const act: Act = dice.happens(0.6)
    ? { do: 'cut', who: who(frame), ms: longMs(frame), ...part }
    : { do: 'reset', who: who(frame), ...part };
  return [{ when: trigger(frame), ...later(frame), act }];
};

const death: Draw = (frame) => {
  const { dice } = frame;
  const kind = dice.pick(['crash', 'restart', 'restart', 'replace', 'drain', 'close'] as const);
  const act: Act =
    kind === 'restart' || kind === 'replace'
      ? { do: kind, who: who(frame), ms: longMs(frame), call: further(frame) }
      : { do: kind, who: who(frame) };
  return [{ when: trigger(frame), ...later(frame), act }];
};

const force: Draw = (frame) => [
  {
    when: trigger(frame),
    ...later(frame),
    act: { do: 'force', who: 'anyone', key: frame.dice.pick(frame.keys), ...drawNamed(frame) },
  },
];

const server: Draw = (frame) => {
  const { dice } = frame;
  const number = dice.int(0, frame.servers - 1);
  const kind = dice.pick([
    'stop server',
    'stop server',
    'crash server',
    'server clock',
    'server clock',
    'refuse',
  ] as const);
  // Set forward it ends leases early, which is no error.
  const ms = longMs(frame) * (kind === 'server clock' ? -1 : 1);
  return [{ when: trigger(frame), ...later(frame), act: { do: kind, server: number, ms } }];
};

/** What nobody does to a server while all is well: its scripts or its mailboxes are deleted, for example. */
const serverEvent: Draw = (frame) => {
  const { dice } = frame;
  const number = dice.int(0, frame.servers - 1);
  const act: Act = { do: 'server event', server: number, event: dice.pick(frame.serverEvents) };
  return [{ when: trigger(frame), ...later(frame), act }];
};

const forget: Draw = (frame) =>
  frame.mayForget && frame.dice.happens(0.2)
    ? [
        {
          when: { atMs: frame.dice.int(0, frame.lengthMs) },
          act: { do: 'forget', how: frame.dice.pick(['empty', 'stale']) },
        },
      ]
    : messageFault(frame);

/** Right after a grant, a request or a reply; perhaps a clock is behind then. */
const serverCrash: Draw = (frame) => {
  const { dice, watchdogTimeoutMs } = frame;
  const number = dice.int(0, frame.servers - 1);
  const ms = dice.scale(1, watchdogTimeoutMs / 2);
  const when: Trigger = dice.happens(0.6)
    ? { event: 'acquired', nth: nth(dice), of: 'anyone' }
    : trigger(frame);
  const afterMs = dice.happens(0.5) ? 0 : dice.scale(1, watchdogTimeoutMs);
  const clockMs = -longMs(frame);
  const another = (number + dice.int(1, Math.max(1, frame.servers - 1))) % frame.servers;
  return [
    { when, afterMs, act: { do: 'crash server', server: number, ms } },
    // Two of three nodes of a quorum.
    ...(another !== number && dice.happens(0.5)
      ? [
          {
            when,
            afterMs: afterMs + dice.scale(1, 1000),
            act: { do: 'crash server', server: another, ms },
          } as const,
        ]
      : []),
    ...(dice.happens(0.2)
      ? [{ when, afterMs, act: { do: 'server clock', server: number, ms: clockMs } } as const]
      : []),
  ];
};

/** A process lives on, and its session is in doubt or over. */
const silence: Draw = (frame) => {
  const { dice, watchdogTimeoutMs } = frame;
  const ms = dice.int(watchdogTimeoutMs / 2, 2.5 * watchdogTimeoutMs);
  const acts: readonly Act[] = [
    { do: 'cut', who: 'holder', ms },
    { do: 'cut', who: who(frame), ms },
    { do: dice.pick(['stop', 'suspend', 'block'] as const), who: who(frame), ms },
    { do: 'refuse', server: 0, ms },
    { do: dice.pick(['stop server', 'crash server'] as const), server: 0, ms },
  ];
  const when: Trigger = dice.happens(0.6)
    ? { event: 'acquired', nth: nth(dice), of: 'anyone' }
    : trigger(frame);
  return [{ when, ...later(frame), act: dice.pick(acts) }];
};

/** What is sent beside a keep-alive is answered, and the keep-alive is late. */
const lateKeepAlive: Draw = (frame) => {
  const { dice } = frame;
  const message = dice.pick(frame.kinds.filter((kind) => kind.includes('session') || kind.includes('alive')));
  return [
    { when: { message, nth: nth(dice), of: who(frame) }, act: { do: 'hold', ms: longMs(frame) } },
    ...(dice.happens(0.5) ? silence(frame) : []),
  ];
};

const SESSION_DRAWS: readonly Draw[] = [silence, silence, silence, silence, lateKeepAlive, lateKeepAlive];

const EVENT_DRAWS: readonly Draw[] = [serverEvent, serverEvent, serverEvent];

const CRASH_DRAWS: readonly Draw[] = Array.from({ length: 10 }, () => serverCrash);

const LATE_DRAWS: readonly Draw[] = [lateWrite, lateWrite];

const WRITE_DRAWS: readonly Draw[] = [
  lateWrite,
  lateWrite,
  overtaking,
  overtaking,
  forcedUnheard,
  forcedUnheard,
  serverBehind,
  link,
];

/** All processes live and run, so that no lease need expire for anything. */
const NETWORK_DRAWS: readonly Draw[] = [
  messageFault,
  lateRequest,
  lateAcquire,
  lateAcquire,
  afterEvent,
  afterEvent,
  link,
];

const DRAWS: readonly Draw[] = [
  messageFault,
  messageFault,
  lateRequest,
  lateAcquire,
  pause,
  pause,
  sleepAndClock,
  afterEvent,
  afterEvent,
  afterEvent,
  afterEvent,
  sleepingWaiter,
  sleepingWaiter,
  sleepingHolder,
  sleepingHolder,
  loop,
  clock,
  holdersClock,
  link,
  death,
  force,
  server,
  forget,
];

function trigger(frame: FaultFrame): Trigger {
  const { dice, lengthMs } = frame;
  const kind = dice.random();
  if (kind < 0.25) return { atMs: dice.int(0, lengthMs) };
  if (kind < 0.6) return onMessage(frame);
  return { event: dice.pick(['asked', 'acquired', 'acquired', 'ended']), nth: nth(dice), of: who(frame) };
}

function sinceEvent(frame: FaultFrame): Trigger {
  const { dice, kinds } = frame;
  const since = {
    event: dice.pick(['acquired', 'acquired', 'asked', 'ended', 'ended'] as const),
    nth: nth(dice),
  };
  const message = dice.pick(['any request', 'any request', 'any reply', dice.pick(kinds)]);
  return { message, nth: dice.pick([1, 1, 2, 3]), of: who(frame), since };
}

function onMessage(frame: FaultFrame): { readonly message: string; readonly nth: number; readonly of: Who } {
  const { dice, kinds } = frame;
  return { message: dice.pick(kinds), nth: nth(dice), of: who(frame) };
}

function nth(dice: Dice): number {
  return dice.scale(1, 12);
}

function who({ dice, processes }: FaultFrame): Who {
  return dice.pick(['holder', 'holder', 'waiter', 'waiter', 'anyone', dice.int(0, processes - 1)] as const);
}

/** A request that is under way for so long may still be executed, as its not-after is not over yet. */
function withinCommandMs({ dice, commandTimeoutMs }: FaultFrame): number {
  return dice.int(Math.floor(commandTimeoutMs / 4), commandTimeoutMs);
}

/** From a moment to two leases. */
function longMs({ dice, watchdogTimeoutMs }: FaultFrame): number {
  return dice.happens(0.3) ? dice.scale(1, 100) : dice.scale(100, 2 * watchdogTimeoutMs);
}

function later({ dice }: FaultFrame): { readonly afterMs?: number } {
  return dice.happens(0.5) ? {} : { afterMs: dice.scale(1, 1000) };
}
