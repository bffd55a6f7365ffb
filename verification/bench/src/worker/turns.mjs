import { setTimeout as pause } from 'node:timers/promises';
import { Histogram } from '../measure/histogram.mjs';

/**
 * Callers that take their turns until the time is up: caller i locks `keys[i % keys.length]`.
 *
 * A caller that still waits then is counted with its wait so far. Throughput and fairness count the locks acquired in
 * time. Costs are counted until the end, and divided by all locks acquired until then.
 *
 * @param {import('../../contestants/contestant.d.mts').Contestant} contestant
 * @param {{ callers: number, keys: string[], ms: number, workMs: number, graceMs: number }} details after the time is up, a
 * caller may finish what it has begun for `graceMs`
 */
export async function turns(contestant, { callers, keys, ms, workMs, graceMs }) {
  const waits = new Histogram();
  const perCaller = Array.from({ length: callers }, () => 0);
  const askedAt = Array.from({ length: callers }, () => 0);
  const failures = {};
  let acquired = 0;
  let usedMs = 0;
  const cpuBefore = process.cpuUsage();
  const startedAt = performance.now();
  const endsAt = startedAt + ms;
  const all = Promise.all(Array.from({ length: callers }, (_, i) => caller(i, keys[i % keys.length])));
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
    failures,
    unfinished: waiting.length,
  };

  async function caller(i, key) {
    const work = () => enter(i);
    while (performance.now() < endsAt) {
      askedAt[i] = performance.now();
      try {
        await contestant.run(key, work);
      } catch (error) {
        const name = error?.name ?? 'Error';
        failures[name] = (failures[name] ?? 0) + 1;
      }
      askedAt[i] = 0;
    }
  }

  function enter(i) {
    const at = performance.now();
    waits.add(at - askedAt[i]);
    askedAt[i] = 0;
    acquired++;
    if (at < endsAt) perCaller[i]++;
    return workMs === 0 ? undefined : stay(at);
  }

  async function stay(at) {
    await pause(workMs);
    usedMs += Math.max(0, Math.min(performance.now(), endsAt) - at);
  }
}
