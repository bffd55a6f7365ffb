import { parseArgs } from 'node:util';

const USAGE = `npm run bench -- [--store postgres] [--only serial,hot4] [--peers floor,verrou] [--seconds 2] [--rounds 3] [--out folder]

  --store    redis, postgres, mysql, mariadb, sqlite, etcd or zookeeper; default redis
  --only     these scenarios; default: all
  --peers    these beside ours; default: all
  --seconds  how long each run is measured; default 1
  --rounds   how often each run is repeated, alternating; the median is shown; default 3
  --out      the folder below which verification/bench/results and docs are written; default the repository, and nothing is written with --only or --peers`;

/**
 * @param {readonly string[]} args @param {readonly import('./stores/store.d.mts').BenchedStore[]} stores
 * @throws Error that tells the usage
 */
export function parseOptions(args, stores) {
  const { values } = parseArgs({
    args: args.filter((it) => it !== '--'),
    options: {
      store: { type: 'string', default: 'redis' },
      only: { type: 'string' },
      peers: { type: 'string' },
      seconds: { type: 'string', default: '1' },
      rounds: { type: 'string', default: '3' },
      out: { type: 'string' },
    },
  });
  const store = named(values.store, stores, 'store');
  const only = values.only?.split(',');
  for (const id of only ?? []) named(id, store.scenarios, 'scenario');
  const seconds = Number(values.seconds);
  const rounds = Number(values.rounds);
  if (!(seconds > 0) || !(rounds >= 1)) throw new Error(USAGE);
  const peers = values.peers?.split(',');
  // With a size: floor-100.
  const nameOf = (id) => id.replace(/-\d+$/, '');
  const isWhole = !only && !peers;
  return {
    store,
    runs: (id) => !only || only.includes(id),
    includes: (id) => !peers || /^(ours|queue)\b/.test(id) || peers.includes(nameOf(id)),
    ms: seconds * 1000,
    rounds,
    out: values.out ?? (isWhole ? '.' : undefined),
  };
}

/** @template {{ id: string }} T @param {string} id @param {readonly T[]} list @param {string} what @returns {T} */
function named(id, list, what) {
  const found = list.find((one) => one.id === id);
  if (found) return found;
  throw new Error(`There is no ${what} "${id}": ${list.map((one) => one.id).join(', ')}.\n\n${USAGE}`);
}
