import { AsyncResource } from 'node:async_hooks';
import type { Kernel, Runner } from './kernel.js';
import type { Machine } from './machine.js';

type Task = () => void;

interface Timer {
  /** By the time of the loop, in whole ms. */
  readonly dueAt: number;
  readonly seq: number;
  run: Task | undefined;
}

type Phase = 'poll' | 'check' | 'timers';
const NEXT: Readonly<Record<Phase, Phase>> = { poll: 'check', check: 'timers', timers: 'poll' };

/**
 * One Node process: an event loop in Node's order (what has arrived, immediates, timers), with timers in whole ms of a time
 * that the loop reads in each phase and for each new timer.
 */
export class SimProcess implements Runner {
  phase: Phase = 'timers';
  state: 'running' | 'stopped' | 'dead' = 'running';
  /** Called with what a callback has thrown. */
  onThrown: (error: unknown) => void = () => undefined;
  /** Called after each callback and its drain. */
  onCallback: () => void = () => undefined;
  private readonly timers = new Set<Timer>();
  private inbox: Task[] = [];
  private immediates: Task[] = [];
  private batch: { run: Task | undefined }[] = [];
  /** How many callbacks of the batch have run. */
  private taken = 0;
  private loopNow: number;
  private timersAdded = 0;
  /** When the next of `timers` is due, or no later than that: `undefined` when nobody knows. */
  private earliest: number | undefined;
  /** How far the callback that runs has moved its own time ahead, as it blocks the loop. */
  private aheadMs = 0;
  /** The true time before which the loop is still in its last callback. */
  private busyUntil = 0;
  private cancelStep: (() => void) | undefined;
  private stepAt = Infinity;
  private readonly endings: Task[] = [];

  constructor(
    readonly name: string,
    private readonly kernel: Kernel,
    readonly machine: Machine,
  ) {
    this.loopNow = Math.floor(this.monotonic);
  }

  // --- what its code sees ---------------------------------------------------------------------------------------

  /** True time as this process has reached it: a callback that blocks is ahead of the others. */
  get trueNow(): number {
    return this.kernel.now + this.aheadMs;
  }

  get monotonic(): number {
    return this.machine.monotonic(this.trueNow);
  }

  get timeOfDay(): number {
    return this.machine.timeOfDay(this.trueNow);
  }

  get uptime(): number {
    return this.machine.uptime(this.trueNow);
  }

  setTimeout(ms: number, task: Task): () => void {
    // Node reads the time for each timer, so that a callback which has blocked the loop before does not shorten it.
    this.loopNow = Math.floor(this.monotonic);
    const whole = ms >= 1 && ms <= 2 ** 31 - 1 ? Math.trunc(ms) : 1;
    const timer: Timer = {
      dueAt: this.loopNow + whole,
      seq: this.timersAdded++,
      run: inOwnContext(task),
    };
    this.timers.add(timer);
    if (this.earliest !== undefined && timer.dueAt < this.earliest) this.earliest = timer.dueAt;
    return () => {
      timer.run = undefined;
      if (this.timers.delete(timer) && timer.dueAt === this.earliest) this.earliest = undefined;
    };
  }

  setImmediate(task: Task): () => void {
    let run: Task | undefined = inOwnContext(task);
    this.immediates.push(() => run?.());
    return () => (run = undefined);
  }

  /** The callback that runs takes so long. Nothing else of this process happens meanwhile. */
  block(ms: number): void {
    this.aheadMs += ms;
  }

  // --- what happens to it ---------------------------------------------------------------------------------------

  /** Something has arrived: a message, the end of a connection. It is read when the loop comes to it. */
  receive(task: Task): void {
    if (this.state === 'dead') return;
    this.inbox.push(task);
    this.schedule();
  }

  /** SIGSTOP: its clocks run on. */
  stop(ms: number): void {
    if (this.state !== 'running') return;
    this.state = 'stopped';
    this.kernel.after(ms, () => this.resume());
  }

  /** The machine sleeps: its monotonic clock stands still. */
  suspend(ms: number): void {
    if (this.state !== 'running') return;
    this.state = 'stopped';
    this.machine.sleep(this.kernel.now);
    this.kernel.after(ms, () => {
      this.machine.wake(this.kernel.now);
      this.resume();
    });
  }

  crash(): void {
    if (this.state === 'dead') return;
    this.state = 'dead';
    this.timers.clear();
    this.earliest = undefined;
    this.inbox = this.immediates = [];
    this.batch = [];
    for (const end of this.endings) end();
  }

  /** Runs `task`, which is no code of the process, when the process has crashed. */
  onEnd(task: Task): void {
    this.endings.push(task);
  }

  get pendingTimers(): number {
    return this.timers.size;
  }

  // --- the loop -------------------------------------------------------------------------------------------------

  /** Called by the kernel when a callback and all that follows from it has run. */
  afterCallback(): void {
    this.busyUntil = this.trueNow;
    this.aheadMs = 0;
    this.onCallback();
    this.busyUntil = Math.max(this.busyUntil, this.trueNow);
    this.aheadMs = 0;
    this.schedule();
  }

  /** A process that was stopped, or whose clock has another speed, reckons again when its next timer is due. */
  schedule(): void {
    if (this.state !== 'running' || this.kernel.current === this) return;
    const at = Math.max(this.busyUntil, this.kernel.now, this.nextAt());
    if (at === this.stepAt) return;
    this.cancelStep?.();
    this.stepAt = at;
    if (at === Infinity) return;
    this.cancelStep = this.kernel.at(at, () => {
      this.stepAt = Infinity;
      this.step();
    });
  }

  private resume(): void {
    if (this.state !== 'stopped') return;
    this.state = 'running';
    this.stepAt = Infinity;
    this.schedule();
  }

  private nextAt(): number {
    if (this.taken < this.batch.length || this.inbox.length > 0 || this.immediates.length > 0)
      return this.kernel.now;
    const dueAt = this.nextTimerAt();
    if (dueAt === Infinity) return Infinity;
    // A moment later, so that rounding does not bring it before its time.
    return this.machine.whenMonotonic(dueAt) + 1e-6;
  }

  private nextTimerAt(): number {
    if (this.earliest !== undefined) return this.earliest;
    let dueAt = Infinity;
    for (const timer of this.timers) if (timer.dueAt < dueAt) dueAt = timer.dueAt;
    this.earliest = dueAt;
    return dueAt;
  }

  private step(): void {
    if (this.state !== 'running') return;
    const task = this.nextTask();
    if (task) this.kernel.enter(this, task);
    else this.schedule();
  }

  /** The next callback in Node's order of phases; `undefined` when the loop has come to rest. */
  private nextTask(): Task | undefined {
    for (let phases = 0; phases <= 3;) {
      const next = this.batch[this.taken++];
      if (next?.run) return next.run;
      if (next) continue;
      this.phase = NEXT[this.phase];
      this.batch = this.fill();
      this.taken = 0;
      phases += 1;
    }
    // It waits for what arrives, in the phase in which that is read.
    this.phase = 'timers';
    return undefined;
  }

  private fill(): { run: Task | undefined }[] {
    // Node's loop reads the time also when it has waited for what arrives, before it runs the first callback.
    this.loopNow = Math.floor(this.monotonic);
    if (this.phase === 'poll') return this.inbox.splice(0).map((run) => ({ run }));
    if (this.phase === 'check') return this.immediates.splice(0).map((run) => ({ run }));
    if (this.nextTimerAt() > this.loopNow) return [];
    const due = [...this.timers].filter(({ dueAt }) => dueAt <= this.loopNow);
    for (const timer of due) this.timers.delete(timer);
    this.earliest = undefined;
    return due.sort((a, b) => a.dueAt - b.dueAt || a.seq - b.seq);
  }
}

/** As `AsyncResource.bind` does; that makes three more functions for each task, which takes an eighth of all time on Node 20. */
function inOwnContext(task: Task): Task {
  const context = new AsyncResource('task');
  return () => context.runInAsyncScope(task);
}
