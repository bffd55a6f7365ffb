import { Observable } from 'rxjs';
import {
  FaultyStore,
  ManualClock,
  type Faults,
  type StoreCommand,
} from '../../libs/distributed-lock/src/testing/index.js';
import type { LockServiceOptions } from '../../libs/distributed-lock/src/lock/request/lock-options.js';
import { LockService } from '../../libs/distributed-lock/src/lock/lock.service.js';
import type { CallOptions, Keys, Lock } from '../../libs/distributed-lock/src/lock/lock.js';
import type {
  LockStore,
  LockStoreContext,
  LockStoreFactory,
} from '../../libs/distributed-lock/src/port/lock-store.js';
import type { DocumentStore } from '../../libs/distributed-lock/src/stores/core/document.store.js';
import { memoryStore } from '../../libs/distributed-lock/src/stores/memory/memory.store.js';
import { awakeClock, type Clock } from '../../libs/distributed-lock/src/time/clock.js';
import {
  COMMAND_TIMEOUT_MS,
  FaultyServer,
  type RegisterFate,
  type RegisterFaults,
} from './faulty-register.js';
import { SessionServer } from './session-server.js';

type ServiceOptions = Omit<Partial<LockServiceOptions>, 'store' | 'clock'>;

const LARGEST_BURST = 2000;

/** Several "processes" on one store, with a clock that the test controls. */
abstract class World {
  readonly clock = new ManualClock();
  /** For what only the store can tell. */
  abstract readonly eye: LockStore;
  /** Who asks that often without any time passing would ask for ever: a real event loop would stand still. */
  isSpinning = false;
  private burst = { at: 0, size: 0 };
  private readonly services: LockService[] = [];

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

  protected open(store: LockStoreFactory, options: ServiceOptions, clock: Clock = this.clock): LockService {
    const service = new LockService({ shutdownGraceMs: 0, ...options, store, clock });
    service.open();
    this.services.push(service);
    return service;
  }

  protected stopSpinning(): void {
    const now = this.clock.now();
    this.burst = now === this.burst.at ? { at: now, size: this.burst.size + 1 } : { at: now, size: 1 };
    if (this.burst.size <= LARGEST_BURST) return;
    this.isSpinning = true;
    throw new Error('It asks the store over and over without letting time pass');
  }
}

/** On one space of locks in memory, with a network that the test controls. */
export class LockWorld extends World {
  /** To be changed at any time. */
  readonly faults: Faults = {};
  readonly callTimeoutMs = 200;
  /** All that was ever sent to the store. */
  readonly commands: StoreCommand[] = [];
  readonly eye: LockStore;
  private readonly memory = memoryStore();

  constructor() {
    super();
    this.eye = this.memory.create({ clock: this.clock, keyPrefix: '', watchdogTimeoutMs: 30_000 });
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
    return this.open(store, options);
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
}

/** A server of documents, behind a network that the test controls. */
interface RemoteServer {
  create(context: LockStoreContext, faults: RegisterFaults): DocumentStore;
}

/** On one remote server of documents, with faults of each call. Each process has a clock of its own speed. */
export abstract class RemoteWorld<Server extends RemoteServer> extends World {
  abstract readonly callTimeoutMs: number;
  readonly eye: LockStore;
  readonly server: Server;
  private readonly stores = new Map<LockService, DocumentStore>();
  private readonly clocks = new Map<LockService, ProcessClock>();

  /** @param speeds of the clocks of the processes, one after the other, over and over */
  constructor(
    serverOn: (clock: ManualClock) => Server,
    private readonly speeds: readonly number[],
  ) {
    super();
    this.server = serverOn(this.clock);
    this.eye = this.server.create({ clock: this.clock, keyPrefix: '', watchdogTimeoutMs: 30_000 }, {});
  }

  service(options: ServiceOptions = {}, faults: RegisterFaults = {}): LockService {
    const speed = this.speeds[this.stores.size % this.speeds.length] ?? 1;
    const clock = new ProcessClock(speed === 1 ? this.clock : driftingClock(this.clock, speed));
    const command = (): RegisterFate | undefined => {
      this.stopSpinning();
      return faults.command?.();
    };
    const notification = () => faults.notification?.();
    let created: DocumentStore | undefined;
    const store: LockStoreFactory = {
      create: (context) =>
        (created = this.server.create(context, { command, notification, arrive: clock.run })),
    };
    const service = this.open(store, options, clock);
    this.stores.set(service, created as DocumentStore);
    this.clocks.set(service, clock);
    return service;
  }

  /** For so many ms nothing that has arrived is read and no timer fires, as for a process that is stopped. */
  freeze(service: LockService, ms: number): void {
    const clock = this.clocks.get(service) as ProcessClock;
    clock.freeze();
    this.clock.after(ms, () => clock.thaw());
  }

  /** The machine of the process is suspended for so many ms, and its time of day is set by so many. */
  sleep(service: LockService, ms: number, setByMs: number): void {
    const clock = this.clocks.get(service) as ProcessClock;
    if (clock.fallAsleep()) this.clock.after(ms, () => clock.wake(setByMs));
  }

  /** A process that is stopped, or whose machine sleeps, does nothing. */
  isStopped(service: LockService): boolean {
    return this.clocks.get(service)?.isStopped ?? false;
  }

  clientOf(service: LockService): string {
    return (this.stores.get(service) as DocumentStore).clientId;
  }

  /** Lanes, owners and leases that the store of a process still remembers. */
  rememberedBy(service: LockService): number {
    const { lanes, owners, ownLeases } = this.stores.get(service) as unknown as Remembering;
    return lanes.size + owners.owners.size + (ownLeases?.leases.size ?? 0);
  }
}

export class RegisterWorld extends RemoteWorld<FaultyServer> {
  /** A call waits for the write under way, and for its own: each for a first request, one timeout of tries, and the last. */
  readonly callTimeoutMs = 6 * COMMAND_TIMEOUT_MS;

  constructor(speeds: readonly number[] = [1]) {
    super((clock) => new FaultyServer(clock), speeds);
  }
}

export class SessionWorld extends RemoteWorld<SessionServer> {
  /** Each request may open a session first, and asks for those of others. */
  readonly callTimeoutMs = 12 * COMMAND_TIMEOUT_MS;

  constructor(speeds: readonly number[] = [1]) {
    super((clock) => new SessionServer(clock), speeds);
  }
}

/** The maps inside a `DocumentStore` that must not grow. */
interface Remembering {
  readonly lanes: ReadonlyMap<string, unknown>;
  readonly owners: { readonly owners: { readonly size: number } };
  readonly ownLeases?: { readonly leases: ReadonlyMap<string, unknown> };
}

/** The clock of a process on a machine of its own. The process can be stopped, and its machine can sleep. */
class ProcessClock implements Clock {
  readonly now: () => number;
  readonly timeOfDay: () => number;
  private depth = 0;
  private held: (() => void)[] = [];
  private sleptMs = 0;
  private setByMs = 0;
  private asleepSince: number | undefined;

  constructor(private readonly clock: Clock) {
    const clocks = awakeClock({
      monotonic: () => this.monotonic,
      timeOfDay: () => (clock.timeOfDay?.() ?? clock.now()) + this.setByMs,
      // In steps of 10 ms, as on Linux.
      uptime: () => Math.floor(clock.now() / 10 + 1234) * 10,
    });
    this.now = clocks.now;
    this.timeOfDay = clocks.timeOfDay;
  }

  get isStopped(): boolean {
    return this.depth > 0;
  }

  /** Runs the task, or lets it wait until the process runs again. */
  readonly run = (task: () => void): void => {
    if (this.isStopped) this.held.push(task);
    else task();
  };

  /** Timers count the monotonic clock, which stands still while the machine sleeps. */
  after(ms: number, task: () => void): () => void {
    const dueAt = this.monotonic + ms;
    let isCancelled = false;
    let stop = (): void => undefined;
    const wait = (left: number): void => {
      stop = this.clock.after(left, () =>
        this.run(() => {
          if (isCancelled) return;
          const rest = dueAt - this.monotonic;
          if (rest > 0.001) wait(rest);
          else task();
        }),
      );
    };
    wait(ms);
    return () => {
      isCancelled = true;
      stop();
    };
  }

  interval(ms: number): Observable<number> {
    return new Observable((subscriber) => {
      let count = 0;
      const tick = (): void => {
        cancel = this.after(ms, tick);
        subscriber.next(count++);
      };
      let cancel = this.after(ms, tick);
      return () => cancel();
    });
  }

  freeze(): void {
    this.depth += 1;
  }

  thaw(): void {
    this.depth -= 1;
    if (this.depth === 0) for (const task of this.held.splice(0)) task();
  }

  /** @returns whether it was awake */
  fallAsleep(): boolean {
    if (this.asleepSince !== undefined) return false;
    this.asleepSince = this.clock.now();
    this.freeze();
    return true;
  }

  /** @param setByMs somebody sets the time of day meanwhile */
  wake(setByMs: number): void {
    this.sleptMs += this.clock.now() - (this.asleepSince ?? 0);
    this.asleepSince = undefined;
    this.setByMs += setByMs;
    this.thaw();
  }

  private get monotonic(): number {
    return (this.asleepSince ?? this.clock.now()) - this.sleptMs;
  }
}

/** `speed` times as fast as `clock`. */
export function driftingClock(clock: Clock, speed: number): Clock {
  return {
    now: () => clock.now() * speed,
    after: (ms, task) => clock.after(ms / speed, task),
    interval: (ms) => clock.interval(ms / speed),
  };
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
