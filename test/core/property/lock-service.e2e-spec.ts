import assert from 'node:assert/strict';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import fc from 'fast-check';
import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import type { CallOptions, Lock } from '../../../libs/distributed-lock/src/lock/lock.js';
import type { RegisterFate, RegisterFaults } from '../../support/faulty-register.js';
import { LockWorld, RemoteWorld, RegisterWorld, SessionWorld } from '../../support/lock-world.js';
import { History } from './history.js';

/** By then everybody has been served or has given up, once the network is whole and holders release at once. */
const QUIET_AFTER_MS = 60_000;

type Step =
  | {
      readonly do: 'ask';
      readonly process: number;
      readonly keys: string | readonly string[];
      readonly options: CallOptions;
      /** Released after that many ms by itself; otherwise by a later step, or at the end. */
      readonly holdMs: number | undefined;
      /** By hand, or around work that succeeds or fails when it is released. */
      readonly via: 'acquire' | 'work' | 'failing work';
    }
  | { readonly do: 'release' | 'abort'; readonly which: number }
  | { readonly do: 'extend'; readonly which: number; readonly ms: number }
  | { readonly do: 'pass' | 'stall'; readonly ms: number }
  | { readonly do: 'crash'; readonly process: number; readonly isHalfOpen: boolean }
  | { readonly do: 'cut' | 'mend'; readonly process: number }
  | { readonly do: 'force'; readonly key: string }
  | { readonly do: 'sweep' }
  | { readonly do: 'set clock'; readonly ms: number }
  | { readonly do: 'freeze'; readonly process: number; readonly ms: number }
  | { readonly do: 'sleep'; readonly process: number; readonly ms: number; readonly setByMs: number }
  | { readonly do: 'end session'; readonly process: number };

interface Plan {
  readonly seed: number;
  readonly watchdogTimeoutMs: number;
  /** Taken one after the other by commands and by pushes, over and over. */
  readonly fates: readonly RegisterFate[];
  readonly pushFates: readonly (readonly number[])[];
  readonly steps: readonly Step[];
}

const processIndex = fc.nat({ max: 2 });
const which = fc.nat({ max: 5 });

const ask: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('ask' as const),
  process: processIndex,
  keys: fc.oneof(
    { weight: 6, arbitrary: fc.constant('a') },
    { weight: 1, arbitrary: fc.constant('b') },
    { weight: 1, arbitrary: fc.constant(['b', 'a']) },
  ),
  options: fc.oneof(
    { weight: 4, arbitrary: waits({}) },
    { weight: 1, arbitrary: waits({ fair: true }) },
    { weight: 1, arbitrary: waits({ leaseMs: 300 }) },
    { weight: 1, arbitrary: waits({ leaseMs: 2000 }) },
    { weight: 1, arbitrary: waits({ leaseMs: 50 }) },
    { weight: 1, arbitrary: waits({ holdAtLeastMs: 200 }) },
  ),
  holdMs: fc.constantFrom(undefined, 0, 1, 10, 100, 1200),
  via: fc.constantFrom('acquire' as const, 'work' as const, 'failing work' as const),
});

function waits(options: CallOptions): fc.Arbitrary<CallOptions> {
  return fc.constantFrom(0, 40, 500, 5000, Infinity).map((waitMs) => ({ ...options, waitMs }));
}

const step = ({ withForce, ofRegister }: Kind): fc.Arbitrary<Step> =>
  fc.oneof(
    { weight: 10, arbitrary: ask },
    { weight: 5, arbitrary: fc.record({ do: fc.constant('release' as const), which }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('abort' as const), which }) },
    {
      weight: 1,
      arbitrary: fc.record({
        do: fc.constant('extend' as const),
        which,
        ms: fc.constantFrom(100, 400, 3000),
      }),
    },
    {
      weight: 8,
      arbitrary: fc.record({
        do: fc.constant('pass' as const),
        ms: fc.constantFrom(1, 5, 30, 101, 400, 1500),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ do: fc.constant('stall' as const), ms: fc.constantFrom(50, 300, 1000, 4000) }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        do: fc.constant('crash' as const),
        process: processIndex,
        isHalfOpen: fc.boolean(),
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('cut' as const), process: processIndex }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('mend' as const), process: processIndex }) },
    ...(withForce
      ? [
          {
            weight: 2,
            arbitrary: fc.record({ do: fc.constant('force' as const), key: fc.constantFrom('a', 'b') }),
          },
        ]
      : []),
    ...ofRegister,
  );

/** What a world is made of, and what may happen in it. */
interface Kind {
  readonly withForce: boolean;
  readonly makeWorld: () => LockWorld | RegisterWorld | SessionWorld;
  /** Part of the usual number of runs, where each takes longer. */
  readonly runs?: number;
  /** Steps of a remote server. */
  readonly ofRegister: readonly fc.WeightedArbitrary<Step>[];
}

/** A connection carries each command once; the store's own repetitions have fates of their own. */
const fate: fc.Arbitrary<RegisterFate> = fc.oneof(
  { weight: 8, arbitrary: fc.constant({}) },
  { weight: 2, arbitrary: fc.constant({ isOvertaken: true }) },
  {
    weight: 2,
    arbitrary: fc.record({
      executedAfterMs: fc.constantFrom(0, 2, 60, 99).map((ms) => [ms]),
      brokenAfterMs: fc.constantFrom(1, 30),
    }),
  },
  { weight: 2, arbitrary: fc.constant({ repliedAfterMs: 3 }) },
  { weight: 2, arbitrary: fc.constant({ repliedAfterMs: 'never' as const }) },
  { weight: 2, arbitrary: fc.constant({ executedAfterMs: [], repliedAfterMs: 'never' as const }) },
  {
    weight: 4,
    arbitrary: fc.record({
      executedAfterMs: fc.constantFrom(0, 2, 60, 95, 99, 100, 250, 900, 4000).map((ms) => [ms]),
      repliedAfterMs: fc.constantFrom<number | 'never'>(0, 1, 40, 99, 'never'),
    }),
  },
);

const pushFate: fc.Arbitrary<readonly number[]> = fc.oneof(
  { weight: 6, arbitrary: fc.constant([0]) },
  { weight: 2, arbitrary: fc.constant([]) },
  {
    weight: 3,
    arbitrary: fc.array(fc.constantFrom(0, 1, 50, 400, 1000, 3000), { minLength: 1, maxLength: 3 }),
  },
);

const plan = (kind: Kind): fc.Arbitrary<Plan> =>
  fc.record({
    seed: fc.nat(),
    watchdogTimeoutMs: fc.constantFrom(900, 900, 9000),
    fates: fc.array(fate, { minLength: 1, maxLength: 25 }),
    pushFates: fc.array(pushFate, { minLength: 1, maxLength: 15 }),
    steps: fc.array(step(kind), { minLength: 5, maxLength: 60, size: 'max' }),
  });

interface Caller {
  readonly controller: AbortController;
  readonly process: Process;
  dueAt: number;
  lock: Lock | undefined;
  /** Ends the work that it does under its lock. */
  end: (() => void) | undefined;
  isSettled: boolean;
}

interface Process {
  readonly name: string;
  readonly service: LockService;
  readonly faults: RegisterFaults;
  /** End of its last freeze: nobody is answered before. */
  thawsAt: number;
}

/** Three processes, their callers, and the bad network between them and the store. */
class Stage {
  readonly history: History;
  private readonly processes: Process[];
  private readonly callers = new Set<Caller>();
  private commandCount = 0;
  private pushCount = 0;
  private processCount = 0;
  private stalledMs = 0;
  private setBackMs = 0;
  /** What is left of a crashed process, or of a time that has come twice, goes by itself. */
  private mustExpire = false;

  constructor(
    private readonly plan: Plan,
    readonly world: LockWorld | RegisterWorld | SessionWorld,
    withForce: boolean,
  ) {
    const isStopped = (name: string) =>
      world instanceof RemoteWorld &&
      this.processes.some((process) => process.name === name && world.isStopped(process.service));
    this.history = new History(!withForce, isStopped);
    this.processes = [0, 1, 2].map(() => this.start());
  }

  async run(): Promise<void> {
    for (const step of this.plan.steps) {
      await this.take(step);
      await this.world.clock.settle();
      this.history.writeAll();
      this.checkDeadlines();
      if (this.history.findings.length > 0) return;
    }
  }

  /** The network is whole again, nobody asks any more, and holders release at once. */
  async calmDown(): Promise<void> {
    for (const { faults } of this.processes) {
      delete faults.command;
      delete faults.notification;
    }
    const end = this.world.clock.now() + QUIET_AFTER_MS;
    while (this.world.clock.now() < end && this.callers.size > 0) {
      for (const { lock } of this.callers) if (lock) void this.release(lock);
      await this.world.clock.advance(250);
      this.history.writeAll();
    }
    // The leases and tickets of a crashed process end by themselves. All others have been released.
    await this.world.clock.advance(
      this.mustExpire ? this.plan.watchdogTimeoutMs + 4000 + this.setBackMs : 500,
    );
    // A release that was not answered is repeated.
    for (let ms = 0; this.remembered > 0 && ms < QUIET_AFTER_MS; ms += 250)
      await this.world.clock.advance(250);
  }

  get unsettled(): number {
    return this.callers.size;
  }

  /** What the stores of the processes remember of keys and owners. */
  get remembered(): number {
    const { world } = this;
    if (world instanceof LockWorld) return 0;
    return this.processes.reduce((sum, { service }) => sum + world.rememberedBy(service), 0);
  }

  private start(): Process {
    const { fates, pushFates, watchdogTimeoutMs } = this.plan;
    const faults: RegisterFaults = {
      command: () => fates[this.commandCount++ % fates.length],
      notification: () => pushFates[this.pushCount++ % pushFates.length],
    };
    const service = this.world.service({ watchdogTimeoutMs }, faults);
    const name = `process ${++this.processCount}`;
    service.events$.subscribe((event) => {
      if (event.type === 'acquired') this.history.onAcquired(event.key, event.fencingToken);
    });
    return { name, service, faults, thawsAt: -Infinity };
  }

  private async take(step: Step): Promise<void> {
    const { clock, eye } = this.world;
    switch (step.do) {
      case 'ask':
        return this.ask(step);
      case 'release': {
        const lock = this.locks[step.which];
        if (lock) void this.release(lock);
        return;
      }
      case 'abort':
        return this.waiting[step.which]?.controller.abort(new Error('the caller left'));
      case 'extend':
        this.locks[step.which]?.extend(step.ms).catch(() => undefined);
        return;
      case 'pass':
        return clock.advance(step.ms);
      case 'stall':
        this.stalledMs += step.ms;
        return clock.stall(step.ms);
      case 'crash':
        return this.crash(step.process, step.isHalfOpen);
      case 'cut':
      case 'mend':
        return this.cutOrMend(step);
      case 'force':
        return void (await eye.forceRelease(step.key));
      case 'sweep':
        return (this.world as RegisterWorld).server.rows.sweep();
      case 'set clock':
        this.mustExpire = true;
        this.setBackMs += Math.max(0, -step.ms);
        return void ((this.world as RegisterWorld).server.offsetMs += step.ms);
      case 'freeze':
        return this.freeze(step);
      case 'sleep':
        return this.sleep(step);
      case 'end session': {
        const { server } = this.world as SessionWorld;
        this.mustExpire = true;
        return server.endSessionsOf(
          (this.world as SessionWorld).clientOf(this.processes[step.process]!.service),
        );
      }
    }
  }

  private ask({ process: index, keys, options, holdMs, via }: Extract<Step, { do: 'ask' }>): void {
    const process = this.processes[index]!;
    const { clock } = this.world;
    const controller = new AbortController();
    const { waitMs = 0 } = options;
    // Without patience a caller waits for one answer; several keys are one answer each.
    const askedAt = Math.max(clock.now(), process.thawsAt) - this.stalledMs;
    const dueAt = askedAt + waitMs + this.world.callTimeoutMs;
    const caller: Caller = { controller, process, dueAt, lock: undefined, end: undefined, isSettled: false };
    this.callers.add(caller);
    const settle = (lock?: Lock): void => {
      caller.isSettled = true;
      if (!lock) return void this.callers.delete(caller);
      caller.lock = lock;
      this.history.onLock(lock, process.name);
      if (holdMs !== undefined) clock.after(holdMs, () => void this.release(lock));
    };
    const given = { ...options, signal: controller.signal };
    const { service } = process;
    if (via === 'acquire') return void service.acquire(keys, given).then(settle, () => settle());
    const work = (lock: Lock) =>
      new Promise<void>((resolve, reject) => {
        caller.end = via === 'work' ? resolve : () => reject(new Error('the work failed'));
        settle(lock);
      });
    service.withLock(keys, given, work).catch(() => caller.isSettled || settle());
  }

  private async release(lock: Lock): Promise<void> {
    const caller = [...this.callers].find((each) => each.lock === lock);
    if (caller) this.callers.delete(caller);
    this.history.onReleased(lock);
    // A promise that nobody handles fails the test: what work leaves behind is nobody's to wait for.
    if (caller?.end) caller.end();
    else await lock.release();
  }

  /** Nothing of it is heard any more; half-open, its connection still stands. */
  private crash(index: number, isHalfOpen: boolean): void {
    const { name, service, faults } = this.processes[index]!;
    faults.command = () => ({ executedAfterMs: [], repliedAfterMs: 'never' });
    faults.notification = () => [];
    this.history.onCrash(name);
    this.mustExpire = true;
    void (isHalfOpen ? service.drain() : service.close());
    this.processes[index] = this.start();
  }

  private freeze({ process: index, ms }: Extract<Step, { do: 'freeze' }>): void {
    const process = this.processes[index]!;
    const thawsAt = this.world.clock.now() + ms;
    process.thawsAt = Math.max(process.thawsAt, thawsAt);
    for (const caller of this.callers) if (caller.process === process) caller.dueAt += ms;
    this.mustExpire = true;
    (this.world as SessionWorld).freeze(process.service, ms);
  }

  private sleep({ process: index, ms, setByMs }: Extract<Step, { do: 'sleep' }>): void {
    const process = this.processes[index]!;
    const wakesAt = this.world.clock.now() + ms;
    process.thawsAt = Math.max(process.thawsAt, wakesAt);
    for (const caller of this.callers) if (caller.process === process) caller.dueAt += 2 * ms;
    this.mustExpire = true;
    (this.world as RegisterWorld).sleep(process.service, ms, setByMs);
  }

  private cutOrMend({ do: what, process: index }: Extract<Step, { do: 'cut' | 'mend' }>): void {
    const process = this.processes[index]!;
    const { fates } = this.plan;
    process.faults.command = () =>
      what === 'cut'
        ? { executedAfterMs: [], repliedAfterMs: 'never' }
        : fates[this.commandCount++ % fates.length];
  }

  private checkDeadlines(): void {
    const now = this.world.clock.now();
    for (const { isSettled, dueAt } of this.callers) {
      if (!isSettled && now > dueAt + this.stalledMs)
        this.history.findings.push(`a caller waits since ${dueAt}`);
    }
  }

  private get locks(): Lock[] {
    return [...this.callers].flatMap(({ lock }) => (lock ? [lock] : []));
  }

  private get waiting(): Caller[] {
    return [...this.callers].filter(({ isSettled }) => !isSettled);
  }
}

/** Retries are jittered: with the same seed they are the same, so that a failure can be replayed. */
function seedRandom(seed: number): void {
  let state = (seed % 2147483646) + 1;
  jest.spyOn(Math, 'random').mockImplementation(() => (state = (state * 48271) % 2147483647) / 2147483647);
}

async function perform(given: Plan, { withForce, makeWorld }: Kind): Promise<void> {
  seedRandom(given.seed);
  const world = makeWorld();
  const stage = new Stage(given, world, withForce);
  const { history } = stage;
  await stage.run();
  await stage.calmDown();
  assert.deepEqual(history.findings, []);
  assert.ok(!world.isSpinning, 'somebody asked over and over without letting time pass');
  assert.equal(stage.unsettled, 0, 'somebody waits for ever');
  assert.deepEqual([await world.eye.inspect('a'), await world.eye.inspect('b')], [null, null]);
  assert.equal(stage.remembered, 0, 'a store remembers a key or an owner that is gone');
  await world.close();
}

afterEach(() => {
  jest.restoreAllMocks();
});

/** More of both by hand: `PROPERTY_RUNS=50000 npm test -- --testPathPatterns=property`. */
const NUM_RUNS = Number(process.env['PROPERTY_RUNS'] ?? 1500);
const BUDGET = {
  interruptAfterTimeLimit: Math.max(8000, NUM_RUNS * 5),
  markInterruptAsFailure: false,
  includeErrorInReport: true,
} as const;
const check = (kind: Kind) =>
  fc.assert(
    fc.asyncProperty(plan(kind), (given) => perform(given, kind)),
    { ...BUDGET, numRuns: Math.ceil(NUM_RUNS * (kind.runs ?? 1)) },
  );

const TIMEOUT_MS = 2 * BUDGET.interruptAfterTimeLimit + 60_000;

const inMemory = { makeWorld: () => new LockWorld(), ofRegister: [] };
const sweep = { weight: 1, arbitrary: fc.constant({ do: 'sweep' } as const) };
const setClock = (...ms: number[]) => ({
  weight: 1,
  arbitrary: fc.record({ do: fc.constant('set clock' as const), ms: fc.constantFrom(...ms) }),
});
const SPEEDS = [1, 1.004, 0.996];
const onRegister = { makeWorld: () => new RegisterWorld(SPEEDS), ofRegister: [sweep] };
const onRegisterSetBack = { ...onRegister, ofRegister: [setClock(-500, -2000)] };
const freeze = {
  weight: 1,
  arbitrary: fc.record({
    do: fc.constant('freeze' as const),
    process: processIndex,
    ms: fc.constantFrom(30, 300, 1000, 4000),
  }),
};
/** Never set back by about as much as the machine sleeps, which is noticed within a second and not at once. */
const sleep = {
  weight: 3,
  arbitrary: fc.record({
    do: fc.constant('sleep' as const),
    process: processIndex,
    ms: fc.constantFrom(150, 1100, 2500, 6000),
    setByMs: fc.constantFrom(0, 0, -400, -17_000, 3_600_000),
  }),
};
const endSession = {
  weight: 2,
  arbitrary: fc.record({ do: fc.constant('end session' as const), process: processIndex }),
};
const withSessions = { makeWorld: () => new SessionWorld(SPEEDS), ofRegister: [freeze], runs: 0.3 };
const withSessionsEnded = { ...withSessions, ofRegister: [freeze, endSession] };
const onRegisterAsleep = { ...onRegister, ofRegister: [sweep, sleep] };
const withSessionsAsleep = { ...withSessions, ofRegister: [freeze, sleep] };
const onRegisterSet = { ...onRegister, ofRegister: [setClock(-2000, 500, 3_600_000)] };

describe.each([
  ['whatever the network does to three processes and their callers', inMemory, inMemory],
  ['whatever happens on a register that loses, delays and repeats swaps', onRegister, onRegister],
  // A clock that is set forward ends leases early, as a forced release does.
  ['on such a register, whose clock is set', onRegisterSetBack, onRegisterSet],
  [
    'on such a register, from machines that sleep and whose clocks are set',
    onRegisterAsleep,
    onRegisterAsleep,
  ],
  // A session that is ended by hand ends leases early, too.
  ['under sessions, in processes that freeze, crash and come back', withSessions, withSessionsEnded],
  ['under sessions, on machines that sleep and whose clocks are set', withSessionsAsleep, withSessionsAsleep],
])('%s', (_, world, worldWithForce) => {
  it(
    'no two of them believe in the same lock, tokens grow, everybody is answered in time, and nothing is left',
    () => expect(check({ ...world, withForce: false })).resolves.toBeUndefined(),
    TIMEOUT_MS,
  );

  it(
    'locks may be taken by force: no token comes twice, everybody is answered in time, and nothing is left',
    () => expect(check({ ...worldWithForce, withForce: true })).resolves.toBeUndefined(),
    TIMEOUT_MS,
  );
});
