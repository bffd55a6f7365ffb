import {
  FaultyStore,
  ManualClock,
  type Faults,
  type StoreCommand,
} from '../../libs/distributed-lock/src/testing/index.js';
import type { LockServiceOptions } from '../../libs/distributed-lock/src/lock/request/lock-options.js';
import { LockService } from '../../libs/distributed-lock/src/lock/lock.service.js';
import type { CallOptions, Lock } from '../../libs/distributed-lock/src/lock/lock.js';
import type { Keys } from '../../libs/distributed-lock/src/lock/request/key-claim.js';
import type { StoreCapability, StoreThatCan } from '../../libs/distributed-lock/src/port/capabilities.js';
import { memoryStore } from '../../libs/distributed-lock/src/memory/store.js';

type ServiceOptions = Omit<Partial<LockServiceOptions>, 'store' | 'clock'>;

const LARGEST_BURST = 2000;

/** Several "processes" on one space of locks in memory, with a clock and a network that the test controls. */
export class LockWorld {
  readonly clock = new ManualClock();
  /** To be changed at any time. */
  readonly faults: Faults = {};
  readonly callTimeoutMs = 200;
  /** All that was ever sent to the store. */
  readonly commands: StoreCommand[] = [];
  /** For what only the store can tell. */
  readonly eye: StoreThatCan<StoreCapability>;
  /** Who asks that often without any time passing would ask for ever: a real event loop would stand still. */
  isSpinning = false;
  private burst = { at: 0, size: 0 };
  private readonly services: LockService[] = [];
  private readonly memory = memoryStore();

  constructor() {
    const context = { clock: this.clock, keyPrefix: '', watchdogTimeoutMs: 30_000 };
    this.eye = this.memory.create(context) as StoreThatCan<StoreCapability>;
  }

  /** A lock that is to be had now: what the call gives without any time passing. */
  async take(service: LockService, key: Keys, options: CallOptions = {}): Promise<Lock> {
    const asked = follow(service.acquire(key, options));
    await this.clock.settle();
    return asked.value;
  }

  /** Closes all services and runs what is left to run. @throws when something keeps a timer after that */
  async close(): Promise<void> {
    const closed = follow(Promise.all([...this.services, this.eye].map((each) => each.close())));
    for (let i = 0; i < 100 && closed.state === 'pending'; i++) await this.clock.advance(1000);
    await closed.promise;
    await this.clock.advance(10_000);
    if (this.clock.pendingTimers > 0) throw new Error(`${this.clock.pendingTimers} timers are left`);
  }

  /** @param faults of this process alone; by default it shares those of the world */
  service(options: ServiceOptions = {}, faults: Faults = this.faults): LockService {
    const store = new FaultyStore(this.memory, {
      command: (command) => {
        this.commands.push(command);
        this.stopSpinning();
        return faults.command?.(command);
      },
      notification: (notification) => faults.notification?.(notification),
    });
    const service = new LockService({ shutdownGraceMs: 0, ...options, store, clock: this.clock });
    service.open();
    this.services.push(service);
    return service;
  }

  /** How many commands of a kind were sent. */
  sent(kind: StoreCommand['kind']): number {
    return this.commands.filter((command) => command.kind === kind).length;
  }

  /** No command is executed or answered any more, and no push arrives. */
  cutNetwork(): void {
    this.faults.command = () => ({ executedAfterMs: [], repliedAfterMs: 'never' });
    this.faults.notification = () => [];
  }

  mendNetwork(): void {
    delete this.faults.command;
    delete this.faults.notification;
  }

  /** Commands get lost that match; others pass. */
  lose(matches: (command: StoreCommand) => boolean): void {
    this.faults.command = (command) =>
      matches(command) ? { executedAfterMs: [], repliedAfterMs: 'never' } : undefined;
  }

  private stopSpinning(): void {
    const now = this.clock.now();
    this.burst = now === this.burst.at ? { at: now, size: this.burst.size + 1 } : { at: now, size: 1 };
    if (this.burst.size <= LARGEST_BURST) return;
    this.isSpinning = true;
    throw new Error('It asks the store over and over without letting time pass');
  }
}

export interface Followed<T> {
  readonly promise: Promise<T>;
  readonly state: 'pending' | 'resolved' | 'rejected';
  /** @throws unless resolved */
  readonly value: T;
  readonly error: unknown;
}

/** A promise that can be looked at; its rejection counts as handled. */
export function follow<T>(promise: Promise<T>): Followed<T> {
  let state: Followed<T>['state'] = 'pending';
  let value: T | undefined;
  let error: unknown;
  promise.then(
    (result) => ((state = 'resolved'), (value = result)),
    (reason: unknown) => ((state = 'rejected'), (error = reason)),
  );
  return {
    promise,
    get state() {
      return state;
    },
    get value() {
      if (state === 'resolved') return value as T;
      throw state === 'rejected' ? error : new Error('It is still pending.');
    },
    get error() {
      return error;
    },
  };
}
