import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { LockStoreError, LockWaitTimeoutError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import type { CallOptions } from '../../../libs/distributed-lock/src/lock/lock.js';
import type { RegisterFaults } from '../../support/faulty-register.js';
import { LockWorld, RegisterWorld } from '../../support/lock-world.js';

const KEYS = ['a', 'b', 'c'];

interface Call {
  readonly process: number;
  readonly keys: readonly string[];
  readonly options: CallOptions;
  readonly holdMs: number;
  /** Until the next call. */
  readonly passMs: number;
}

const call: fc.Arbitrary<Call> = fc.record({
  process: fc.nat({ max: 1 }),
  keys: fc.shuffledSubarray(KEYS, { minLength: 1 }),
  options: fc.record(
    {
      waitMs: fc.constantFrom(0, 1, 3, 40),
      fair: fc.boolean(),
      mode: fc.constantFrom('shared' as const, 'exclusive' as const),
      leaseMs: fc.constant(5000),
    },
    { requiredKeys: ['waitMs'] },
  ),
  holdMs: fc.constantFrom(0, 2, 30),
  passMs: fc.nat({ max: 12 }),
});

/** One way of the network for each command, at least a ms: what is held then is seen between two of the clock's ticks. */
const way = fc.integer({ min: 1, max: 12 });

/** Lets time pass ms by ms, and notes when each key was in use. */
class Run {
  readonly findings: string[] = [];
  private readonly faults: RegisterFaults = {};
  private readonly services: readonly LockService[];
  private readonly lastInUse = new Map<string, number>();
  private readonly calls: Promise<void>[] = [];
  private sent = 0;

  constructor(
    ways: readonly number[],
    private readonly world: LockWorld | RegisterWorld,
  ) {
    this.services = [world.service({}, this.faults), world.service({}, this.faults)];
    this.faults.command = () => {
      const ms = ways[this.sent++ % ways.length] as number;
      return { executedAfterMs: [ms], repliedAfterMs: ms };
    };
  }

  async start({ process, keys, options, holdMs }: Call): Promise<void> {
    await this.look();
    const service = this.services[process] as LockService;
    const askedAt = this.world.clock.now();
    const work = service.withLock(keys, options, () => {
      return new Promise<void>((resolve) => this.world.clock.after(holdMs, resolve));
    });
    const check = (error: unknown): void => {
      // On a network as slow as this one the time for one write may be over before the write has won. The store says so.
      if (error instanceof LockStoreError && error.message.includes('other clients have written it first'))
        return;
      if (!(error instanceof LockWaitTimeoutError)) return void this.findings.push(String(error));
      const wasInUse = keys.some((key) => (this.lastInUse.get(key) ?? -Infinity) >= askedAt);
      if (!wasInUse) this.findings.push(`${error.message} Nobody had used ${keys.join()} since.`);
    };
    this.calls.push(work.catch(check));
  }

  async pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed++) {
      await this.world.clock.advance(1);
      await this.look();
    }
  }

  async finish(): Promise<void> {
    await this.pass(200);
    delete this.faults.command;
    await this.pass(100);
    await Promise.all(this.calls);
    await this.world.close();
  }

  private async look(): Promise<void> {
    for (const key of KEYS) {
      if (await this.world.eye.inspect(key)) this.lastInUse.set(key, this.world.clock.now());
    }
  }
}

describe.each([
  ['over a slow network', () => new LockWorld()],
  ['on a slow register', () => new RegisterWorld()],
])('a caller that is refused %s', (_, makeWorld) => {
  it('is only told that a key is not free which was in use while it asked', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(way, { minLength: 1, maxLength: 10 }),
        fc.array(call, { minLength: 2, maxLength: 12 }),
        async (ways, calls) => {
          const run = new Run(ways, makeWorld());
          for (const each of calls) {
            await run.start(each);
            await run.pass(each.passMs);
          }
          await run.finish();
          expect(run.findings).toEqual([]);
        },
      ),
      { numRuns: Number(process.env['PROPERTY_RUNS'] ?? 150) },
    );
  }, 120_000);
});
