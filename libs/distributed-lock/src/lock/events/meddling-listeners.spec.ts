import { AsyncResource } from 'node:async_hooks';
import { expect, it } from '@jest/globals';
import fc from 'fast-check';
import { follow, LockWorld } from '../../../../../test/support/lock-world.js';
import { LockError } from '../../port/lock.errors.js';
import type { CallOptions, Lock } from '../lock.js';
import type { LockService } from '../lock.service.js';
import type { LockEvent } from './lock.events.js';

const KEYS = ['a', 'b'] as const;
const CALLS_MS = 200;
const REST_MS = 120_000;

interface Caller {
  readonly at: number;
  readonly service: number;
  readonly keys: readonly string[];
  readonly options: CallOptions;
  readonly how: 'withLock' | 'acquire';
  readonly holdMs: number;
  /** Its deeds run in the flow of this caller. */
  readonly listens: boolean;
  /** Keys that the work acquires, too, and shares where it has them. */
  readonly nested: readonly string[];
}

const DEEDS = [
  'withLock',
  'tryAcquire',
  'take over',
  'release all',
  'abort all',
  'force',
  'look',
  'stall',
  'close',
] as const;

/** A listener does this at the first events of a type. */
interface Deed {
  readonly type: LockEvent['type'];
  readonly what: (typeof DEEDS)[number];
  readonly key: string;
  readonly times: number;
}

const TYPES: readonly LockEvent['type'][] = [
  'asked',
  'acquired',
  'released',
  'abandoned',
  'contended',
  'takeover',
  'suspended',
  'resumed',
  'lost',
];

const caller: fc.Arbitrary<Caller> = fc.record({
  at: fc.nat({ max: CALLS_MS }),
  service: fc.nat({ max: 1 }),
  keys: fc.constantFrom(['a'], ['a'], ['b'], ['a', 'b'], ['b', 'a']),
  options: fc.constantFrom<CallOptions>(
    {},
    {},
    { waitMs: 0 },
    { waitMs: 30 },
    { maxWaiting: 1 },
    { fair: true },
    { fair: true, maxWaiting: 1 },
    { mode: 'shared' },
    { leaseMs: 300 },
    { holdAtLeastMs: 40 },
    { onBusy: 'takeover', graceMs: 25, waitMs: 400 },
  ),
  how: fc.constantFrom('withLock', 'acquire'),
  holdMs: fc.constantFrom(0, 1, 20, 60, 600),
  listens: fc.boolean(),
  nested: fc.constantFrom([], [], ['b'], ['b', 'a']),
});

const deed: fc.Arbitrary<Deed> = fc.record({
  type: fc.constantFrom(...TYPES),
  what: fc.constantFrom(...DEEDS),
  key: fc.constantFrom(...KEYS),
  times: fc.integer({ min: 1, max: 3 }),
});

/** Callers of two processes, whose listeners call the service in the middle of what it does. */
class Meddling {
  readonly complaints: string[] = [];
  private readonly world = new LockWorld();
  private readonly services: readonly LockService[];
  private readonly calls: ReturnType<typeof follow>[] = [];
  private readonly inside: { readonly lock: Lock; readonly isShared: boolean }[] = [];
  private readonly locks = new Set<Lock>();
  private readonly controllers: AbortController[] = [];
  /** The controllers of the callers that wait for their locks. */
  private readonly waiting = new Set<AbortController>();
  private readonly left: { deed: Deed; times: number }[];
  /** A holder that loses its lock by force may believe in it for as long as a message takes. */
  private isForced = false;
  private readonly endings = new Map<string, string[]>();

  constructor(
    deeds: readonly Deed[],
    private readonly latencyMs: number,
  ) {
    this.left = deeds.map((it) => ({ deed: it, times: it.times }));
    this.connect();
    const options = { watchdogTimeoutMs: 600, shutdownGraceMs: 100 };
    this.services = [this.world.service(options), this.world.service(options)];
    this.services.forEach((service, i) => {
      service.events$.subscribe((event) => this.note(`${i}`, event));
      service.events$.subscribe((event) => this.meddle(service, event));
    });
  }

  async run(callers: readonly Caller[], outageAt: number): Promise<void> {
    const { world } = this;
    const { clock } = world;
    for (const each of callers) clock.after(each.at, () => this.start(each));
    clock.after(outageAt, () => world.cutNetwork());
    clock.after(outageAt + 700, () => this.connect());
    await clock.advance(REST_MS);
    if (this.calls.some(({ state }) => state === 'pending')) this.complaints.push('a call is not over');
    for (const lock of this.locks) void lock.release();
    await clock.advance(REST_MS);
    const sent = world.commands.length;
    await clock.advance(REST_MS);
    if (world.commands.length > sent)
      this.complaints.push('commands are sent although nobody holds or waits');
    for (const key of KEYS)
      if ((await world.eye.inspect(key)) !== null) this.complaints.push(`${key} is still held or waited for`);
    for (const service of this.services) {
      if (service.held().length > 0) this.complaints.push('a service still holds');
      const { acquirer } = service as unknown as { acquirer: { allQueues(): readonly unknown[] } };
      if (acquirer.allQueues().length > 0) this.complaints.push('a local queue is left');
    }
    this.checkEndings();
    await world.close();
  }

  private connect(): void {
    const { world, latencyMs } = this;
    world.mendNetwork();
    if (latencyMs > 0) world.faults.command = () => ({ repliedAfterMs: latencyMs });
  }

  private start({ service, keys, options, how, holdMs, listens, nested }: Caller): void {
    const controller = new AbortController();
    this.controllers.push(controller);
    const locks = this.services[service] as LockService;
    const all = { ...options, signal: controller.signal };
    const key = keys.length === 1 ? (keys[0] as string) : keys;
    const work = async (lock: Lock): Promise<void> => {
      const listening = listens ? locks.events$.subscribe((event) => this.meddle(locks, event)) : undefined;
      try {
        this.waiting.delete(controller);
        const work = () => this.workUnder(lock, options, holdMs);
        if (nested.length === 0) return await work();
        await locks.withLock(nested, { waitMs: 30 }, (inner) =>
          Promise.all([this.workUnder(inner, {}, 5), work()]),
        );
      } finally {
        listening?.unsubscribe();
      }
    };
    const call = async (): Promise<void> => {
      if (how === 'withLock') return locks.withLock(key, all, work);
      const lock = await locks.acquire(key, all);
      this.locks.add(lock);
      await work(lock);
      await lock.release();
    };
    // A flow of its own.
    this.waiting.add(controller);
    new AsyncResource('caller').runInAsyncScope(() =>
      this.follow(call().finally(() => this.waiting.delete(controller))),
    );
  }

  private follow(call: Promise<unknown>): void {
    const followed = follow(call);
    this.calls.push(followed);
    call.catch((error: unknown) => {
      const isExpected = error instanceof LockError || (error as Error)?.name === 'AbortError';
      if (!isExpected) this.complaints.push(`a call is told ${String(error)}`);
    });
  }

  private async workUnder(lock: Lock, { mode }: CallOptions, holdMs: number): Promise<void> {
    if (!believes(lock) && !lock.signal.aborted)
      this.complaints.push('work begins under a lock that was released');
    const isShared = mode === 'shared';
    for (const other of this.inside)
      if (!this.isForced && isBreach(lock, isShared, other)) this.complaints.push(`two hold ${lock.key}`);
    const mine = { lock, isShared };
    this.inside.push(mine);
    await new Promise<void>((resolve) => void this.world.clock.after(holdMs, resolve));
    this.inside.splice(this.inside.indexOf(mine), 1);
  }

  private meddle(service: LockService, { type }: LockEvent): void {
    for (const each of this.left) {
      if (each.deed.type !== type || each.times === 0) continue;
      each.times -= 1;
      this.perform(service, each.deed);
    }
  }

  private perform(service: LockService, { what, key }: Deed): void {
    const { world } = this;
    switch (what) {
      case 'withLock':
        return this.follow(service.withLock(key, { waitMs: 30 }, (lock) => this.workUnder(lock, {}, 5)));
      case 'tryAcquire':
        return this.follow(
          service.tryAcquire(key).then(async (lock) => {
            if (!lock) return;
            await this.workUnder(lock, {}, 5);
            await lock.release();
          }),
        );
      case 'take over':
        return this.follow(
          service.withLock(key, { onBusy: 'takeover', graceMs: 25, waitMs: 400 }, (lock) =>
            this.workUnder(lock, {}, 5),
          ),
        );
      case 'release all':
        for (const { lock } of this.inside) this.follow(lock.release());
        return;
      case 'abort all':
        for (const controller of this.controllers) controller.abort();
        setImmediate(() => {
          for (const { signal } of this.waiting)
            if (signal.aborted) this.complaints.push('a caller waits on although it has left');
        });
        return;
      case 'force':
        this.isForced = true;
        return this.follow(service.forceRelease(key));
      case 'look':
        service.held();
        service.current(key);
        for (const { lock } of this.inside) believes(lock);
        return this.follow(service.inspect(key));
      case 'stall':
        return world.clock.stall(400);
      case 'close':
        return this.follow(service.close());
    }
  }

  private note(service: string, event: LockEvent): void {
    if (event.type === 'forced') this.isForced = true;
    if (!('call' in event) || event.call === undefined) return;
    const name = `call ${event.call} of process ${service}`;
    this.endings.set(name, [...(this.endings.get(name) ?? []), event.type]);
  }

  /** Each call is asked, then acquired and ended, or abandoned: once. */
  private checkEndings(): void {
    for (const [name, types] of this.endings) {
      if (!/^asked (abandoned|acquired (released|lost))$/.test(types.join(' ')))
        this.complaints.push(`${name}: ${types.join(' ')}`);
    }
  }
}

const CALLER = {
  at: 0,
  service: 0,
  options: {},
  how: 'withLock',
  holdMs: 0,
  listens: false,
  nested: [],
} as const;

/** The cases that earlier runs have found. */
const FOUND: readonly (readonly [Caller[], Deed[], outageAt: number, latencyMs: number])[] = [
  // A call for several keys that aborts waited on until it was known whether its first key was lost.
  [
    [
      { ...CALLER, at: 6, keys: ['a'], options: { maxWaiting: 1 } },
      { ...CALLER, keys: ['a', 'b'], options: { leaseMs: 300 } },
      { ...CALLER, keys: ['a'] },
      { ...CALLER, keys: ['a'] },
    ],
    [
      { type: 'asked', what: 'withLock', key: 'a', times: 2 },
      { type: 'abandoned', what: 'abort all', key: 'a', times: 1 },
      { type: 'contended', what: 'stall', key: 'a', times: 1 },
    ],
    6,
    0,
  ],
];

/** Two believe at once that they hold a key alone. One that shares a hold of its flow has its token. */
function isBreach(lock: Lock, isShared: boolean, other: { lock: Lock; isShared: boolean }): boolean {
  const key = lock.keys.find((it) => other.lock.keys.includes(it));
  if (key === undefined || (isShared && other.isShared)) return false;
  if (lock.tokenOf(key) === other.lock.tokenOf(key)) return false;
  return believes(lock) && believes(other.lock);
}

function believes(lock: Lock): boolean {
  try {
    lock.assertHeld();
    return true;
  } catch {
    return false;
  }
}

it('listeners that call the service in the middle of what it does break no promise', async () => {
  const property = fc.asyncProperty(
    fc.array(caller, { minLength: 2, maxLength: 10 }),
    fc.array(deed, { minLength: 1, maxLength: 6 }),
    fc.nat({ max: 4 * CALLS_MS }),
    fc.constantFrom(0, 0, 3),
    async (callers, deeds, outageAt, latencyMs) => {
      const meddling = new Meddling(deeds, latencyMs);
      await meddling.run(callers, outageAt);
      expect(meddling.complaints).toEqual([]);
    },
  );
  await fc.assert(property, {
    numRuns: Number(process.env['MEDDLING_RUNS'] ?? 60),
    examples: FOUND.map((found) => [...found]),
  });
}, 240_000);
