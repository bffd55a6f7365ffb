import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import fc from 'fast-check';
import { Redis } from 'ioredis';
import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import { permitsKey } from '../../../libs/distributed-lock/src/stores/redis/redisson/redisson-names.js';
import type { RegisterFate, RegisterFaults } from '../../support/faulty-register.js';
import { closeServices, openService } from '../../support/lock-services.js';
import { LockWorld, RegisterWorld, SessionWorld } from '../../support/lock-world.js';
import { twoNames } from '../../support/odd-names.js';
import { until } from '#until';
import { Callers, type Surroundings } from './family-callers.js';
import { program, type Pace, type Step } from './family-program.js';

/** Stands in names for what makes them new for each run. */
const ID = 'ID';
const NUM_RUNS = Number(process.env['PROPERTY_RUNS'] ?? 600);
const REDIS_RUNS = Math.ceil(NUM_RUNS / 15);
const LIMIT_MS = Math.max(12_000, NUM_RUNS * 20);
const BUDGET = {
  interruptAfterTimeLimit: LIMIT_MS,
  markInterruptAsFailure: false,
  includeErrorInReport: true,
};
const TIMEOUT_MS = 2 * LIMIT_MS + 60_000;

const SLOW: Pace = {
  waitsMs: [0, 40, 500, 5000, Infinity],
  holdsMs: [undefined, 0, 1, 10, 100, 1200],
  leasesMs: [50, 300, 2000],
  passesMs: [1, 5, 30, 101, 400, 1500],
};
const QUICK: Pace = {
  waitsMs: [0, 20, 100, Infinity],
  holdsMs: [undefined, 0, 1, 5, 20],
  leasesMs: [60, 300],
  passesMs: [0, 1, 3, 10],
};

/** A connection carries each command once; the store's own repetitions have fates of their own. */
const fate: fc.Arbitrary<RegisterFate> = fc.oneof(
  { weight: 10, arbitrary: fc.constant({}) },
  { weight: 2, arbitrary: fc.constant({ isOvertaken: true }) },
  {
    weight: 2,
    arbitrary: fc.record({
      executedAfterMs: fc.constantFrom(0, 2, 60, 99).map((ms) => [ms]),
      brokenAfterMs: fc.constantFrom(1, 30),
    }),
  },
  { weight: 2, arbitrary: fc.constant({ repliedAfterMs: 'never' as const }) },
  { weight: 2, arbitrary: fc.constant({ executedAfterMs: [], repliedAfterMs: 'never' as const }) },
  {
    weight: 4,
    arbitrary: fc.record({
      executedAfterMs: fc.constantFrom(0, 2, 60, 99, 100, 250, 900).map((ms) => [ms]),
      repliedAfterMs: fc.constantFrom<number | 'never'>(0, 1, 40, 99, 'never'),
    }),
  },
);
const pushFate: fc.Arbitrary<readonly number[]> = fc.oneof(
  { weight: 6, arbitrary: fc.constant([0]) },
  { weight: 1, arbitrary: fc.constant([]) },
  { weight: 2, arbitrary: fc.array(fc.constantFrom(0, 1, 50, 400, 3000), { minLength: 1, maxLength: 2 }) },
);

interface Network {
  readonly seed: number;
  readonly watchdogTimeoutMs: number;
  /** Taken one after the other by commands and by pushes, over and over; none is a network without faults. */
  readonly fates: readonly RegisterFate[];
  readonly pushFates: readonly (readonly number[])[];
}

const badNetwork: fc.Arbitrary<Network> = fc.record({
  seed: fc.nat(),
  watchdogTimeoutMs: fc.constantFrom(900, 9000),
  fates: fc.array(fate, { minLength: 1, maxLength: 25 }),
  pushFates: fc.array(pushFate, { minLength: 1, maxLength: 15 }),
});
const goodNetwork: fc.Arbitrary<Network> = fc.record({
  seed: fc.nat(),
  watchdogTimeoutMs: fc.constantFrom(900, 9000),
  fates: fc.constant([]),
  pushFates: fc.constant([]),
});

type MakeWorld = () => LockWorld | RegisterWorld | SessionWorld;

/** Processes in this one, with a clock and a network that the program controls. */
class SmallWorld implements Surroundings {
  readonly ofProcess = new Map<LockService, RegisterFaults>();
  private commands = 0;
  private pushes = 0;

  constructor(
    private readonly network: Network,
    readonly world: LockWorld | RegisterWorld | SessionWorld,
  ) {}

  start(): LockService {
    const { fates, pushFates, watchdogTimeoutMs } = this.network;
    const faults: RegisterFaults = {
      command: () => fates[this.commands++ % fates.length],
      notification: () => pushFates[this.pushes++ % pushFates.length],
    };
    const service = this.world.service({ watchdogTimeoutMs }, faults);
    this.ofProcess.set(service, faults);
    return service;
  }

  crash(service: LockService): void {
    const faults = this.ofProcess.get(service)!;
    faults.command = () => ({ executedAfterMs: [], repliedAfterMs: 'never' });
    faults.notification = () => [];
    this.ofProcess.delete(service);
    void service.close();
  }

  mend(): void {
    for (const faults of this.ofProcess.values()) {
      delete faults.command;
      delete faults.notification;
    }
  }

  /** What the stores of the live processes remember of keys and owners. */
  get remembered(): number {
    const { world, ofProcess } = this;
    if (world instanceof LockWorld) return 0;
    return [...ofProcess.keys()].reduce((sum, service) => sum + world.rememberedBy(service), 0);
  }

  pass(ms: number): Promise<void> {
    return this.world.clock.advance(ms);
  }

  after(ms: number, task: () => void): void {
    this.world.clock.after(ms, task);
  }

  settle(): Promise<void> {
    return this.world.clock.settle();
  }
}

/** Retries are jittered: with the same seed they are the same, so that a failure can be replayed. */
function seedRandom(seed: number): void {
  let state = (seed % 2147483646) + 1;
  jest.spyOn(Math, 'random').mockImplementation(() => (state = (state * 48271) % 2147483647) / 2147483647);
}

async function perform(makeWorld: MakeWorld, network: Network, steps: readonly Step[]): Promise<void> {
  seedRandom(network.seed);
  const small = new SmallWorld(network, makeWorld());
  const callers = new Callers(small, { book: 'book', pool: 'pool' });
  const { world } = small;
  await callers.run(steps);
  small.mend();
  const unanswered = await callers.calmDown(60_000, 250);
  // The leases and tickets of a crashed process end by themselves. All others have been released.
  await world.clock.advance(network.watchdogTimeoutMs + 4000);
  // A late notification is doubted for as long as a waiter may be silent.
  for (let ms = 0; small.remembered > 0 && ms < 4000; ms += 100) await world.clock.advance(100);
  if (network.fates.length === 0) callers.witness.checkOrder();
  assert.deepEqual(callers.witness.findings, []);
  assert.equal(unanswered, 0, 'somebody waits for ever');
  assert.ok(!world.isSpinning, 'somebody asked over and over without letting time pass');
  assert.deepEqual([await world.eye.inspect('book'), await world.eye.inspect('pool')], [null, null]);
  assert.equal(small.remembered, 0, 'a store remembers a key or an owner that is gone');
  await world.close();
}

afterEach(() => {
  jest.restoreAllMocks();
});

describe.each<[string, MakeWorld, number]>([
  ['in three processes', () => new LockWorld(), NUM_RUNS],
  ['on a register that loses, delays and repeats swaps', () => new RegisterWorld(), NUM_RUNS],
  ['under sessions', () => new SessionWorld(), Math.ceil(NUM_RUNS * 0.3)],
])('readers, writers and holders of permits %s', (_, makeWorld, numRuns) => {
  it(
    'whatever the network does: no writer is beside anybody, no permit is given twice, all are answered, nothing is left',
    async () => {
      const property = fc.asyncProperty(badNetwork, program(SLOW, true), (network, steps) =>
        perform(makeWorld, network, steps),
      );
      await expect(fc.assert(property, { ...BUDGET, numRuns })).resolves.toBeUndefined();
    },
    TIMEOUT_MS,
  );

  it(
    'over a network that delivers, those who ask to be served fairly are served in the order of asking, whatever they ask for',
    async () => {
      const property = fc.asyncProperty(goodNetwork, program(SLOW, false), (network, steps) =>
        perform(makeWorld, network, steps),
      );
      await expect(fc.assert(property, { ...BUDGET, numRuns })).resolves.toBeUndefined();
    },
    TIMEOUT_MS,
  );
});

/** Processes that share nothing but a real Redis. */
class RealWorld implements Surroundings {
  private readonly services: readonly LockService[];
  private started = 0;

  constructor(url: string, processes: number) {
    this.services = Array.from({ length: processes }, () => openService(url));
  }

  /** The same ones for each program: what is between them is their keys. */
  start(): LockService {
    return this.services[this.started++ % this.services.length]!;
  }

  crash(): void {
    throw new Error('no process crashes here');
  }

  pass(ms: number): Promise<void> {
    return pause(ms);
  }

  after(ms: number, task: () => void): void {
    setTimeout(task, ms);
  }

  /** It is asked on the same connection, so that what was asked before has been answered. */
  async settle(service: LockService): Promise<void> {
    await service.inspect('settle');
  }
}

describe('the same over a real Redis', () => {
  /** A process that is not run for so long loses its turn, as it should. */
  const LONGEST_STALL_MS = 300;
  let redis: Redis;
  let world: RealWorld;
  const stalls = monitorEventLoopDelay({ resolution: 5 });

  beforeAll(() => {
    const url = process.env['REDIS_URL'] as string;
    redis = new Redis(url);
    world = new RealWorld(url, 3);
    stalls.enable();
  });
  afterAll(async () => {
    stalls.disable();
    await closeServices();
    await redis.quit();
  });

  /** A lock where the permits of the pool would be is refused, or they are (test/redis/keys). */
  const names = twoNames(ID)
    .map(([book, pool]) => ({ book, pool }))
    .filter(({ book, pool }) => book !== permitsKey(pool));

  const remains = async (id: string): Promise<string[]> => {
    const found: string[] = [];
    for await (const keys of redis.scanStream({ match: `*${id}*`, count: 5000 }))
      found.push(...(keys as string[]));
    return found.filter((key) => !key.startsWith('nest_lock_token:'));
  };

  it(
    'no writer is beside anybody, no permit is given twice, the fair are served in order, nothing is left',
    async () => {
      const property = fc.asyncProperty(program(QUICK, false), names, async (steps, { book, pool }) => {
        const id = randomUUID();
        const callers = new Callers(world, { book: book.replaceAll(ID, id), pool: pool.replaceAll(ID, id) });
        stalls.reset();
        await callers.run(steps);
        const unanswered = await callers.calmDown(10_000, 10);
        if (stalls.max / 1e6 < LONGEST_STALL_MS) callers.witness.checkOrder();
        assert.deepEqual(callers.witness.findings, []);
        assert.equal(unanswered, 0, 'somebody waits for ever');
        await until(async () => (await remains(id)).length === 0);
      });
      await expect(fc.assert(property, { ...BUDGET, numRuns: REDIS_RUNS })).resolves.toBeUndefined();
    },
    TIMEOUT_MS,
  );
});
