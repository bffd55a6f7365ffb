import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { LockService } from '../../libs/distributed-lock/src/lock/lock.service.js';
import type { CallOptions } from '../../libs/distributed-lock/src/lock/lock.js';
import type { Fate } from '../../libs/distributed-lock/src/testing/index.js';
import { History } from '../core/property/history.js';
import { QuorumWorld } from './quorum-world.js';

const NODES = 3;
const WATCHDOG_MS = 1500;
/** By then whoever waits has been served or has given up, once the network is whole. */
const QUIET_AFTER_MS = 60_000;

type Step =
  | { readonly do: 'ask'; readonly process: number; readonly options: CallOptions; readonly holdMs: number }
  | { readonly do: 'pass'; readonly ms: number }
  | { readonly do: 'cut' | 'mend' | 'restart'; readonly node: number };

const node = fc.nat({ max: NODES - 1 });
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('ask' as const),
      process: fc.nat({ max: 2 }),
      options: fc.constantFrom<CallOptions>(
        { waitMs: 0 },
        { waitMs: 300 },
        { waitMs: 20_000 },
        { waitMs: 20_000, fair: true },
        { waitMs: 20_000, leaseMs: 400 },
        { waitMs: 20_000, holdAtLeastMs: 300 },
      ),
      holdMs: fc.constantFrom(0, 5, 60, 900),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.constantFrom(1, 20, 150, 700) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('cut' as const, 'mend' as const), node }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('restart' as const), node }) },
);

/** Late, lost and doubled: whatever a network may do to a command. */
const fate: fc.Arbitrary<Fate> = fc.oneof(
  { weight: 6, arbitrary: fc.constant({}) },
  { weight: 2, arbitrary: fc.nat({ max: 90 }).map((ms) => ({ repliedAfterMs: ms })) },
  { weight: 2, arbitrary: fc.nat({ max: 90 }).map((ms) => ({ executedAfterMs: [ms] })) },
  { weight: 1, arbitrary: fc.nat({ max: 200 }).map((ms) => ({ executedAfterMs: [0, ms] })) },
  {
    weight: 1,
    arbitrary: fc
      .nat({ max: 300 })
      .map((ms) => ({ executedAfterMs: [ms], repliedAfterMs: 'never' as const })),
  },
  { weight: 1, arbitrary: fc.constant({ executedAfterMs: [], repliedAfterMs: 'never' as const }) },
);

const plan = fc.record({
  fates: fc.array(fate, { minLength: 5, maxLength: 40 }),
  steps: fc.array(step, { minLength: 10, maxLength: 50 }),
});

/** One run in a world of its own, checked after every step. */
class Run {
  private readonly world = new QuorumWorld(NODES);
  private readonly history = new History(true);
  private readonly services: LockService[];
  private readonly calls: Promise<unknown>[] = [];
  private sent = 0;

  constructor(private readonly fates: readonly Fate[]) {
    for (let i = 0; i < NODES; i++) this.mend(i);
    this.services = [0, 1, 2].map(() => this.world.service({ watchdogTimeoutMs: WATCHDOG_MS }));
    for (const service of this.services) {
      service.events$.subscribe((event) => {
        if (event.type === 'acquired') this.history.onAcquired(event.key, event.fencingToken);
      });
    }
  }

  async step(step: Step): Promise<void> {
    switch (step.do) {
      case 'ask':
        this.ask(step);
        break;
      case 'cut':
        this.world.cut(step.node);
        break;
      case 'mend':
        this.mend(step.node);
        break;
      case 'restart':
        await this.restart(step.node);
        break;
      case 'pass':
        await this.pass(step.ms);
    }
    await this.world.clock.settle();
    this.history.writeAll();
  }

  /** Lets it come to rest. @returns what should not have been */
  async finish(): Promise<readonly string[]> {
    for (let i = 0; i < NODES; i++) this.world.mend(i);
    await this.pass(QUIET_AFTER_MS);
    await this.world.close();
    await Promise.all(this.calls);
    return this.history.findings;
  }

  private ask({ process, options, holdMs }: Extract<Step, { do: 'ask' }>): void {
    const service = this.services[process] as LockService;
    const work = service.withLock('k', options, async (lock) => {
      this.history.onLock(lock, `${process}`);
      await new Promise<void>((resolve) => this.world.clock.after(holdMs, resolve));
      this.history.onReleased(lock);
    });
    this.calls.push(work.catch(() => undefined));
  }

  /** Each command meets the next fate. */
  private mend(node: number): void {
    this.world.mend(node);
    (this.world.faults[node] as { command?: unknown }).command = () =>
      this.fates[this.sent++ % this.fates.length];
  }

  /** Empty, and away until every lease that it has forgotten is over: the delayed re-join. */
  private async restart(node: number): Promise<void> {
    this.world.cut(node);
    this.world.forget(node);
    await this.pass(WATCHDOG_MS + 300);
    this.mend(node);
  }

  /** In small steps, so that no two believe at once unseen. */
  private async pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= 50) {
      await this.world.clock.advance(Math.min(left, 50));
      this.history.writeAll();
    }
  }
}

describe('a quorum of three, whatever its networks do, with nodes that restart empty and re-join late', () => {
  it('never has two holders that believe in one lock, and its tokens grow', async () => {
    await fc.assert(
      fc.asyncProperty(plan, async ({ fates, steps }) => {
        const run = new Run(fates);
        for (const step of steps) await run.step(step);
        expect(await run.finish()).toEqual([]);
      }),
      { numRuns: Number(process.env['CHAOS_RUNS'] ?? 40) },
    );
  }, 120_000);
});
