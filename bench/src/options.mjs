import { parseArgs } from 'node:util';

const USAGE = `npm run bench -- [--only serial,hot1] [--peers floor,redis-semaphore] [--seconds 2] [--rounds 3] [--out folder]

  --only     these scenarios; default: all
  --peers    these beside ours; default: all
  --seconds  how long each run is measured; default 1
  --rounds   how often each run is repeated, alternating; the median is shown; default 3
  --out      where benchmarks.md and images/ go; default docs, and nothing is written with --only or --peers`;

/**
 * @param {readonly string[]} args @param {readonly string[]} scenarios their ids
 * @throws Error that tells the usage
 */
export function parseOptions(args, scenarios) {
  const { values } = parseArgs({
    args: [...args],
    options: {
      only: { type: 'string' },
      peers: { type: 'string' },
      seconds: { type: 'string', default: '1' },
      rounds: { type: 'string', default: '3' },
      out: { type: 'string' },
    },
  });
  const only = values.only?.split(',');
  const stranger = only?.find((id) => !scenarios.includes(id));
  const seconds = Number(values.seconds);
  const rounds = Number(values.rounds);
  if (stranger) throw new Error(`There is no scenario "${stranger}": ${scenarios.join(', ')}.\n\n${USAGE}`);
  if (!(seconds > 0) || !(rounds >= 1)) throw new Error(USAGE);
  const peers = values.peers?.split(',');
  // With a size: floor-100.
  const nameOf = (id) => id.replace(/-\d+$/, '');
  const isWhole = !only && !peers;
  return {
    runs: (id) => !only || only.includes(id),
    includes: (id) => !peers || /^(ours|queue)\b/.test(id) || peers.includes(nameOf(id)),
    ms: seconds * 1000,
    rounds,
    out: values.out ?? (isWhole ? 'docs' : undefined),
  };
}
