/** The time of day at true time 0. */
export const EPOCH = Date.UTC(2026, 0, 1);

/** The clocks of one machine at each true time, in ms. Each machine has one process. */
export class Machine {
  private since = 0;
  private monotonicSince = 0;
  private sleptMs = 0;
  private isAsleep = false;

  /**
   * @param rate of the monotonic clock
   * @param offsetMs of the time of day
   * @param timeOfDayIs whether it drifts as the monotonic clock does, or a time server keeps it exact
   */
  constructor(
    private rate: number,
    private offsetMs: number,
    private readonly timeOfDayIs: 'drifting' | 'exact' = 'exact',
  ) {}

  /** Stands still while the machine sleeps, as Node's on Linux. */
  monotonic(at: number): number {
    return this.monotonicSince + (this.isAsleep ? 0 : (at - this.since) * this.rate);
  }

  timeOfDay(at: number): number {
    const sinceStart = this.timeOfDayIs === 'exact' ? at : this.uptime(at);
    return Math.floor(EPOCH + sinceStart + this.offsetMs);
  }

  /** Time since the start, sleep included. */
  uptime(at: number): number {
    return this.monotonic(at) + this.sleptMs + (this.isAsleep ? at - this.since : 0);
  }

  /** The true time at which the monotonic clock shows `ms`. */
  whenMonotonic(ms: number): number {
    return this.since + (ms - this.monotonicSince) / this.rate;
  }

  setClock(byMs: number): void {
    this.offsetMs += byMs;
  }

  setRate(at: number, rate: number): void {
    this.moveTo(at);
    this.rate = rate;
  }

  sleep(at: number): void {
    this.moveTo(at);
    this.isAsleep = true;
  }

  wake(at: number): void {
    this.sleptMs += at - this.since;
    this.since = at;
    this.isAsleep = false;
  }

  private moveTo(at: number): void {
    this.monotonicSince = this.monotonic(at);
    this.since = at;
  }
}
