import { expectedCounts } from './count-history.js';
import type { Failure, Report } from './report.js';

/** The sum of all reports. */
export class Summary {
  histories = 0;
  events = 0;
  cpuSeconds = 0;
  readonly failures: Failure[] = [];
  private readonly counts = new Map<string, number>();

  add({ histories, events, cpuSeconds, counts, failures }: Report): void {
    this.histories += histories;
    this.events += events;
    this.cpuSeconds += cpuSeconds;
    this.failures.push(...failures);
    for (const [what, times] of Object.entries(counts))
      this.counts.set(what, (this.counts.get(what) ?? 0) + times);
  }

  /** @param store for the commands that bring a failure back */
  lines(store: string): readonly string[] {
    const { histories, events, cpuSeconds, failures } = this;
    const expected = expectedCounts();
    const counted = [...this.counts].sort(([a], [b]) => (a < b ? -1 : 1));
    const missing = expected.filter((it) => !this.counts.has(it));
    const msEach = ((1000 * cpuSeconds) / Math.max(1, histories)).toFixed(1);
    return [
      ...counted.map(([what, times]) => `${String(times).padStart(9)} ${what}`),
      ...missing.map((what) => `    never ${what}`),
      ...failures.flatMap(({ seed, rule, text }) => [
        `seed ${seed}: ${rule}: ${text}`,
        `  Again: npm run simulate -- --store ${store} --seed ${seed} --shrink`,
      ]),
      `${histories} histories of ${store}, ${failures.length} with broken promises, ${events} events, ${cpuSeconds.toFixed(1)} CPU seconds, ${msEach} ms each`,
    ];
  }
}
