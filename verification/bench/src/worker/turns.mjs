import { setTimeout as pause } from 'node:timers/promises';
import { Histogram } from '../measure/histogram.mjs';

/** Which key a caller takes next. Caller i keeps to `keys[i % keys.length]`, takes any of them, or one that nobody has had before. */
const CHOICES = {
  own: (keys) => (i) => keys[i % keys.length],
  any: (keys) => () => keys[Math.floor(Math.random() * keys.length)],
  new: ([prefix]) => {
    let count = 0;
    return () => `${prefix}:${count++}`;
  },
};

/**
 * Callers that take their turns until the time is up.
 *
 * A caller that still waits then is counted with its wait so far. Throughput and fairness count the locks acquired in
 * time. Costs are counted until the end, and divided by all locks acquired until then.
 *
 * @param {import('../../contestants/contestant.d.mts').Contestant} contestant
 * @param {{ callers: number, keys: string[], choice?: keyof typeof CHOICES, ms: number, workMs: number, graceMs: number }} details after
 * the time is up, a caller may finish what it has begun for `graceMs`
 */
export async function turns(contestant, { callers, keys, choice = 'own', ms, workMs, graceMs }) {
  const keyFor = CHOICES[choice](keys);
  const waits = new Histogram();
  /** From the call to the end of the work, where there is some. */
  const took = new Histogram();
  const perCaller = Array.from({ length: callers }, () => 0);
  const askedAt = Array.from({ length: callers }, () => 0);
  const failures = {};
  let acquired = 0;
  let usedMs = 0;
  const cpuBefore = process.cpuUsage();
  const startedAt = performance.now();
  const endsAt = startedAt + ms;
  const all = Promise.all(Array.from({ length: callers }, (_, i) => caller(i)));
  await Promise.race([all, pause(ms + graceMs, undefined, { ref: false })]);
  const now = performance.now();
  const waiting = askedAt.filter((at) => at > 0);
  for (const at of waiting) waits.add(now - at);
  const { user, system } = process.cpuUsage(cpuBefore);
  return {
    acquired,
    perCaller,
    ms,
    usedMs,
    cpuUs: user + system,
    waits: waits.toJSON(),
    took: took.toJSON(),
    failures,
    unfinished: waiting.length,
  };

  async function caller(i) {
    const work = () => enter(i);
    while (performance.now() < endsAt) {
      askedAt[i] = performance.now();
      try {
        await contestant.run(keyFor(i), work);
      } catch (error) {
        const name = error?.name ?? 'Error';
        failures[name] = (failures[name] ?? 0) + 1;
      }
      askedAt[i] = 0;
    }
  }

  function enter(i) {
    const at = performance.now();
    const waitedMs = at - askedAt[i];
    waits.add(waitedMs);
    askedAt[i] = 0;
    acquired++;
    if (at < endsAt) perCaller[i]++;
    return workMs === 0 ? undefined : stay(at, waitedMs);
  }

  async function stay(at, waitedMs) {
    await pause(workMs);
    const now = performance.now();
    took.add(waitedMs + now - at);
    usedMs += Math.max(0, Math.min(now, endsAt) - at);
  }
}
