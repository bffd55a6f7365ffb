/** Buckets grow by 1 %, so each quantile is exact to 1 %. */
const GROWTH = Math.log(1.01);

/** Counts how often each duration was seen. Small enough to be sent as JSON, and to be added to those of other processes. */
export class Histogram {
  counts = new Map();
  maxMs = 0;

  /** @param {number} ms */
  add(ms) {
    const bucket = Math.round(Math.log(Math.max(ms, 0.001)) / GROWTH);
    this.counts.set(bucket, (this.counts.get(bucket) ?? 0) + 1);
    if (ms > this.maxMs) this.maxMs = ms;
  }

  /** @param {{ counts: [number, number][], maxMs: number }} other as `toJSON` gives it */
  merge({ counts, maxMs }) {
    for (const [bucket, count] of counts) this.counts.set(bucket, (this.counts.get(bucket) ?? 0) + count);
    this.maxMs = Math.max(this.maxMs, maxMs);
    return this;
  }

  /** @param {number} share 0.5 for the median @returns {number} ms; NaN when nothing was added */
  quantile(share) {
    const sorted = [...this.counts].sort(([a], [b]) => a - b);
    let left = share * sorted.reduce((sum, [, count]) => sum + count, 0);
    const found = sorted.find(([, count]) => (left -= count) <= 0);
    return found ? Math.min(Math.exp(found[0] * GROWTH), this.maxMs) : NaN;
  }

  /** @returns {number} ms; NaN when nothing was added */
  mean() {
    let [sum, all] = [0, 0];
    for (const [bucket, count] of this.counts) {
      sum += count * Math.exp(bucket * GROWTH);
      all += count;
    }
    return sum / all;
  }

  toJSON() {
    return { counts: [...this.counts], maxMs: this.maxMs };
  }
}
