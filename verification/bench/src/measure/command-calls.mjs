/** The commands that the benchmark itself sends. */
const OURS = new Set(['info', 'flushall', 'monitor']);

/** Calls by command, subcommands together, without those of the benchmark. @param {string} info INFO commandstats */
export function commandCalls(info) {
  const calls = new Map();
  for (const [, command, count] of info.matchAll(/^cmdstat_([^:|]+)[^:]*:calls=(\d+)/gm)) {
    if (!OURS.has(command)) calls.set(command, (calls.get(command) ?? 0) + Number(count));
  }
  return calls;
}
