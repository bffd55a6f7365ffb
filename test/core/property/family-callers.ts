import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import type { Lock } from '../../../libs/distributed-lock/src/lock/lock.js';
import { PERMITS, PROCESSES, type Step } from './family-program.js';
import { Witness } from './witness.js';

/** Where callers live: processes, a clock, and the network between them and one store. */
export interface Surroundings {
  start(): LockService;
  /** Nothing of it is heard any more. */
  crash(service: LockService): void;
  pass(ms: number): Promise<void>;
  after(ms: number, task: () => void): void;
  /** Each request has reached the store, or is still in the network. */
  settle(service: LockService): Promise<void>;
}

interface Caller {
  readonly service: LockService;
  readonly controller: AbortController;
  lock: Lock | undefined;
  isSettled: boolean;
}

/** Three processes and those who ask them for locks, under the eyes of a witness. */
export class Callers {
  readonly witness = new Witness(PERMITS);
  private readonly processes: LockService[];
  private readonly callers = new Set<Caller>();
  private count = 0;

  constructor(
    private readonly world: Surroundings,
    readonly keys: Readonly<Record<'book' | 'pool', string>>,
  ) {
    this.processes = Array.from({ length: PROCESSES }, () => world.start());
  }

  async run(steps: readonly Step[]): Promise<void> {
    for (const step of steps) {
      await this.take(step);
      this.witness.look();
      if (this.witness.findings.length > 0) return;
    }
  }

  /** No caller asks any more, and holders release at once. @returns how many were never answered */
  async calmDown(patienceMs: number, everyMs: number): Promise<number> {
    for (let waited = 0; waited < patienceMs && this.callers.size > 0; waited += everyMs) {
      for (const lock of this.witness.locks) this.release(lock);
      await this.world.pass(everyMs);
      this.witness.look();
    }
    return this.callers.size;
  }

  private async take(step: Step): Promise<void> {
    switch (step.do) {
      case 'ask':
        return this.ask(step);
      case 'release': {
        const lock = this.witness.locks[step.which];
        if (lock) this.release(lock);
        return;
      }
      case 'abort':
        return [...this.callers].filter(({ isSettled }) => !isSettled)[step.which]?.controller.abort();
      case 'downgrade':
        return this.downgrade(step.which);
      case 'extend':
        this.witness.locks[step.which]?.extend(step.ms).catch(ignore);
        return;
      case 'pass':
        return this.world.pass(step.ms);
      case 'crash':
        return this.crash(step.process);
    }
  }

  private async ask({ process, key, options, holdMs }: Extract<Step, { do: 'ask' }>): Promise<void> {
    const { world, witness } = this;
    const service = this.processes[process]!;
    const controller = new AbortController();
    const caller: Caller = { service, controller, lock: undefined, isSettled: false };
    const asked = ++this.count;
    this.callers.add(caller);
    const onLock = (lock: Lock): void => {
      caller.isSettled = true;
      caller.lock = lock;
      witness.onAcquired(lock, options.weight ?? 0, options.fair ? asked : undefined);
      if (holdMs !== undefined) world.after(holdMs, () => this.release(lock));
      witness.look();
    };
    const onRefusal = (): void => void this.callers.delete(caller);
    service.acquire(this.keys[key], { ...options, signal: controller.signal }).then(onLock, onRefusal);
    await world.settle(service);
  }

  private downgrade(which: number): void {
    const writers = this.witness.locks.filter(({ mode }) => mode === 'exclusive');
    writers[which % Math.max(1, writers.length)]?.downgrade().catch(ignore);
  }

  private release(lock: Lock): void {
    for (const caller of this.callers) if (caller.lock === lock) this.forget(caller);
    void lock.release();
  }

  /** It holds nothing any more; whoever still waits has to be answered. */
  private forget(caller: Caller): void {
    if (!caller.lock) return;
    this.callers.delete(caller);
    this.witness.onLeft(caller.lock);
  }

  private crash(index: number): void {
    const service = this.processes[index]!;
    for (const caller of this.callers) if (caller.service === service) this.forget(caller);
    this.world.crash(service);
    this.processes[index] = this.world.start();
  }
}

/** The lock is lost, or the network has the answer: the witness asks the lock itself. */
function ignore(): void {}
