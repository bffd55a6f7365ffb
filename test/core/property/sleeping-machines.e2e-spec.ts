import assert from 'node:assert/strict';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { CallOptions } from '../../../libs/distributed-lock/src/lock/lock.js';
import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import { RegisterWorld, SessionWorld, type RemoteWorld } from '../../support/lock-world.js';
import { History } from './history.js';

const KEY = 'k';
const STEP_MS = 50;
const RUNS_FOR_MS = 4000;

/** A machine falls asleep at some point of the protocol, and its time of day is set meanwhile. */
interface Nap {
  readonly process: number;
  readonly atMs: number;
  readonly ms: number;
  readonly setByMs: number;
}

/** Takes the key again and again. */
interface User {
  readonly process: number;
  readonly options: CallOptions;
  readonly holdMs: number;
  readonly pauseMs: number;
}

interface Plan {
  readonly naps: readonly Nap[];
  /** From each process to the server. */
  readonly delaysMs: readonly number[];
  readonly users: readonly User[];
}

/** Never set back by about as much as the machine sleeps, which is noticed within a second and not at once. */
const nap: fc.Arbitrary<Nap> = fc.record({
  process: fc.nat({ max: 2 }),
  atMs: fc.nat({ max: RUNS_FOR_MS / 2 }),
  ms: fc.constantFrom(150, 700, 1100, 2500),
  setByMs: fc.constantFrom(0, 0, -400, -5000, -17_000, 3_600_000),
});

const user: fc.Arbitrary<User> = fc.record({
  process: fc.nat({ max: 2 }),
  options: fc.record({
    waitMs: fc.constantFrom(150, 700, Infinity),
    fair: fc.boolean(),
    holdAtLeastMs: fc.constantFrom(0, 0, 100),
  }),
  holdMs: fc.constantFrom(0, 40, 400, 1600),
  pauseMs: fc.constantFrom(1, 10, 200),
});

const plan: fc.Arbitrary<Plan> = fc.record({
  naps: fc.array(nap, { minLength: 1, maxLength: 3 }),
  delaysMs: fc.array(fc.constantFrom(0, 5, 30), { minLength: 3, maxLength: 3 }),
  users: fc.array(user, { minLength: 3, maxLength: 7 }),
});

/** The users of three processes take one key in turns, each process on a machine of its own. */
class Stage {
  readonly history: History;
  private readonly services: readonly LockService[];
  private isOver = false;

  constructor(
    private readonly world: RemoteWorld<never>,
    private readonly plan: Plan,
  ) {
    this.services = plan.delaysMs.map((ms) =>
      world.service(
        { watchdogTimeoutMs: 1500 },
        { command: () => ({ executedAfterMs: [ms], repliedAfterMs: ms }), notification: () => [ms] },
      ),
    );
    const history = new History(true, (name) => world.isStopped(this.services[Number(name)] as LockService));
    for (const { events$ } of this.services) {
      events$.subscribe((event) => {
        if (event.type === 'acquired') history.onAcquired(event.key, event.fencingToken);
      });
    }
    this.history = history;
  }

  async run(): Promise<void> {
    const { naps, users } = this.plan;
    const { clock } = this.world;
    for (const { process, atMs, ms, setByMs } of naps) {
      clock.after(atMs, () => this.world.sleep(this.services[process] as LockService, ms, setByMs));
    }
    for (const each of users) void this.useAgain(each);
    for (let ms = 0; ms < RUNS_FOR_MS; ms += STEP_MS) {
      await clock.advance(STEP_MS);
      this.history.writeAll();
    }
    this.isOver = true;
  }

  private async useAgain({ process, options, holdMs, pauseMs }: User): Promise<void> {
    while (!this.isOver) {
      const service = this.services[process] as LockService;
      const lock = await service.acquire(KEY, options).catch(() => undefined);
      if (lock) {
        this.history.onLock(lock, String(process));
        await this.pass(holdMs, service);
        this.history.onReleased(lock);
        await lock.release();
      }
      await this.pass(pauseMs, service);
    }
  }

  /** Nothing goes on while the machine sleeps. */
  private async pass(ms: number, service: LockService): Promise<void> {
    let left = ms;
    do {
      await new Promise<void>((resolve) => this.world.clock.after(left, resolve));
      left = STEP_MS;
    } while (this.world.isStopped(service));
  }
}

async function perform(world: RemoteWorld<never>, given: Plan): Promise<void> {
  const stage = new Stage(world, given);
  await stage.run();
  assert.deepEqual(stage.history.findings, []);
  await world.close();
}

/** More of both by hand: `PROPERTY_RUNS=50000 npm test -- --testPathPatterns=property`. */
const NUM_RUNS = Number(process.env['PROPERTY_RUNS'] ?? 1500) / 5;
const BUDGET = {
  numRuns: NUM_RUNS,
  interruptAfterTimeLimit: Math.max(8000, NUM_RUNS * 25),
  markInterruptAsFailure: false,
  includeErrorInReport: true,
} as const;

describe.each([
  ['a register', () => new RegisterWorld()],
  ['sessions', () => new SessionWorld()],
])('a machine that sleeps at any point of what three processes do with one key on %s', (_, makeWorld) => {
  it(
    'lets no two believe in the lock, however its clock is set meanwhile',
    () =>
      expect(
        fc.assert(
          fc.asyncProperty(plan, (given) => perform(makeWorld() as RemoteWorld<never>, given)),
          BUDGET,
        ),
      ).resolves.toBeUndefined(),
    2 * BUDGET.interruptAfterTimeLimit + 60_000,
  );
});
