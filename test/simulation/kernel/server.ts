import type { Kernel } from './kernel.js';
import { EPOCH } from './machine.js';

type Task = () => void;

/**
 * A server: code of the simulation, not of the library. What arrives is executed at once, unless it is stopped (then when it
 * goes on) or down (then never).
 */
export class SimServer {
  state: 'running' | 'stopped' | 'down' = 'running';
  /** Called when it crashes: connections end, and what was not on disk is gone. */
  readonly onCrash: Task[] = [];
  /** Called when it is back. */
  readonly onStart: Task[] = [];
  private readonly waiting: Task[] = [];
  /** Speed of its clock, against true time. Set before anything happens. */
  rate = 1;
  private offsetMs = 0;
  private refusesUntil = -1;

  constructor(
    readonly name: string,
    private readonly kernel: Kernel,
  ) {}

  /** Its time of day in ms, with a fraction. */
  get timeOfDay(): number {
    return EPOCH + this.kernel.now * this.rate + this.offsetMs;
  }

  /** How long `ms` of its clock really take. */
  trueMs(ms: number): number {
    return ms / this.rate;
  }

  setClock(byMs: number): void {
    this.offsetMs += byMs;
  }

  /** Answers each request with an error for so many ms. */
  refuse(ms: number): void {
    this.refusesUntil = this.kernel.now + ms;
  }

  /** @param event one of `serverEvents` of its back end */
  happen(event: string): void {
    throw new Error(`${this.name} knows no event ${event}`);
  }

  protected get isRefusing(): boolean {
    return this.kernel.now < this.refusesUntil;
  }

  /** Executes what has arrived. */
  receive(task: Task): void {
    if (this.state === 'running') task();
    else if (this.state === 'stopped') this.waiting.push(task);
  }

  stop(ms: number): void {
    if (this.state !== 'running') return;
    this.state = 'stopped';
    this.kernel.after(ms, () => {
      if (this.state !== 'stopped') return;
      this.state = 'running';
      for (const task of this.waiting.splice(0)) task();
    });
  }

  /** Crashes, and comes back after so many ms. */
  crash(downMs: number): void {
    if (this.state === 'down') return;
    this.state = 'down';
    this.waiting.length = 0;
    for (const end of this.onCrash) end();
    this.kernel.after(downMs, () => {
      this.state = 'running';
      for (const start of this.onStart) start();
    });
  }
}
