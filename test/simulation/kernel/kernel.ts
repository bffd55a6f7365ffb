import { drain, drainSlowly, outsideOfPromises } from './drain.js';
import { hashOf, hashOfNumber, type Dice } from './dice.js';
import { Timeline } from './timeline.js';

/** A process whose callbacks run, one at a time. Implemented by `SimProcess`. */
export interface Runner {
  readonly name: string;
  readonly phase: string;
  onThrown(error: unknown): void;
  /** The callback and all that followed from it have run. */
  afterCallback(): void;
}

/** So many callbacks in a second of virtual time mean that something asks over and over without letting time pass. */
const LARGEST_BURST = 20_000;

/**
 * Virtual time, and what happens in it. One callback of one process runs at a time and is drained to its end, so that
 * `current` is the process whose code runs, in its promise reactions, too.
 */
export class Kernel {
  /** True time in ms, from 0 on. */
  now = 0;
  current: Runner | undefined;
  callbacks = 0;
  /** Of each callback and each event: two runs of one plan have the same. */
  hash = 0;
  private burst = { at: 0, callbacks: 0 };
  private readonly timeline = new Timeline();

  constructor(readonly dice: Dice) {}

  /** Runs `task` at a true time, or now if that is over. @returns cancels it */
  at(time: number, task: () => void): () => void {
    return this.timeline.add(Math.max(time, this.now), task);
  }

  after(ms: number, task: () => void): () => void {
    return this.at(this.now + ms, task);
  }

  note(text: string): void {
    this.hash = hashOf(text, this.hash);
  }

  /** Called by a process: `task` is its next callback. */
  enter(process: Runner, task: () => void): void {
    this.current = process;
    this.callbacks += 1;
    this.hash = hashOfNumber(this.now, hashOf(process.phase, hashOf(process.name, this.hash)));
    try {
      task();
    } catch (error) {
      process.onThrown(error);
    }
  }

  /** Runs what happens until the true time `until`, or until `isDone`. */
  async run(until: number, isDone: () => boolean = () => false): Promise<void> {
    if (drain) return outsideOfPromises(() => this.runAtOnce(until, isDone, drain as () => void));
    while (this.step(until) && !isDone()) {
      if (!this.current) continue;
      await drainSlowly();
      this.leave();
    }
    this.end(until, isDone);
  }

  private runAtOnce(until: number, isDone: () => boolean, drainNow: () => void): void {
    while (this.step(until)) {
      if (this.current) {
        drainNow();
        this.leave();
      }
      if (isDone()) return;
    }
    this.end(until, isDone);
  }

  private step(until: number): boolean {
    const next = this.timeline.shift(until);
    if (!next) return false;
    this.checkBurst(next.at);
    this.now = next.at;
    next.run();
    return true;
  }

  private checkBurst(now: number): void {
    const { at, callbacks } = this.burst;
    if (now - at > 1000) this.burst = { at: now, callbacks: this.callbacks };
    else if (this.callbacks - callbacks > LARGEST_BURST)
      throw new Error(`${LARGEST_BURST} callbacks in a second, by ${now} ms`);
  }

  private leave(): void {
    const process = this.current;
    this.current = undefined;
    process?.afterCallback();
  }

  private end(until: number, isDone: () => boolean): void {
    if (Number.isFinite(until) && !isDone()) this.now = Math.max(this.now, until);
  }
}
