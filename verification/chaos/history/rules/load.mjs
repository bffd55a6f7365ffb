import { groupBy } from '../../group-by.mjs';

/** Where a kind has limits: what a process weighs, and what waiting costs Redis. */
export function load({ samples, settings }) {
  const { limits = {}, callers } = settings;
  const findings = [];
  const { runner = [], ...apps } = Object.fromEntries(groupBy(samples, ({ who }) => who));
  for (const [who, list] of Object.entries(apps)) {
    const megabytes = Math.max(...list.map(({ rss }) => rss)) / 1e6;
    if (megabytes > limits.megabytes) findings.push(`${who} took ${megabytes.toFixed(0)} MB`);
  }
  const [first, last] = [runner[0], runner.at(-1)];
  if (!(last?.at > first?.at)) return findings;
  const each = ((last.redisScripts - first.redisScripts) * 1000) / (last.at - first.at) / callers;
  return each > limits.scriptsPerCaller
    ? [...findings, `each caller cost Redis ${each.toFixed(1)} scripts a second`]
    : findings;
}
