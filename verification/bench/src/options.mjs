import { parseArgs } from 'node:util';

const USAGE = `npm run bench -- [--store postgres] [--only serial,hot4] [--peers floor,verrou] [--seconds 2] [--rounds 3] [--out folder]
npm run bench -- all [--stores redis,etcd-3] [--seconds 3]

  --store    redis, postgres, mysql, mariadb, sqlite, etcd or zookeeper; etcd-3, zookeeper-3, redis-cluster or redis-acks; default redis
  --only     these scenarios; default: all
  --peers    these beside ours; default: all
  --seconds  how long each turn is measured; default 3
  --rounds   how many turns ours and the floor have, one after the other with the others; default 3. Others have a third of them
  --warm-up  the longest warm-up before a turn, in seconds; default 5
  --brief    the scenarios and turns that a run of all stores has of this one
  --busy     writes tables also where other programs use the machine
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
      seconds: { type: 'string', default: '3' },
      rounds: { type: 'string', default: '3' },
      'warm-up': { type: 'string', default: '5' },
      brief: { type: 'boolean', default: false },
      busy: { type: 'boolean', default: false },
      out: { type: 'string' },
    },
  });
  const store = named(values.store, stores, 'store');
  const only = values.only?.split(',');
  for (const id of only ?? []) named(id, store.scenarios, 'scenario');
  const [seconds, rounds, warmUp] = [values.seconds, values.rounds, values['warm-up']].map(Number);
  if (!(seconds > 0) || !(rounds >= 1) || !(warmUp > 0)) throw new Error(USAGE);
  const peers = values.peers?.split(',');
  // With a size: floor-100.
  const nameOf = (id) => id.replace(/-\d+$/, '');
  const isWhole = !only && !peers;
  const isBrief = (id) => !values.brief || id in store.brief;
  return {
    store,
    runs: (id) => (!only || only.includes(id)) && isBrief(id),
    includes: (id) => !peers || /^(ours|queue)\b/.test(id) || peers.includes(nameOf(id)),
    ms: seconds * 1000,
    warmUpMs: warmUp * 1000,
    rounds,
    brief: values.brief,
    busy: values.busy,
    out: values.out ?? (isWhole ? '.' : undefined),
  };
}

/** @template {{ id: string }} T @param {string} id @param {readonly T[]} list @param {string} what @returns {T} */
function named(id, list, what) {
  const found = list.find((one) => one.id === id);
  if (found) return found;
  throw new Error(`There is no ${what} "${id}": ${list.map((one) => one.id).join(', ')}.\n\n${USAGE}`);
}
