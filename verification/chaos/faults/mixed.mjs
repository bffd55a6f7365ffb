import { excusesOf } from './excuses.mjs';

/** The workload of callers. */
const CALLERS = {
  exclusive: 'one at a time',
  shared: 'readers and writers',
  permits: 'three permits',
  'several-keys': 'one or two keys',
  fair: 'in strict order',
};

/**
 * One kind after the other, in random order.
 *
 * @param {Partial<import('../index.d.mts').Kind>} about @param {readonly import('../index.d.mts').Kind[]} parts
 * @returns {import('../index.d.mts').Kind}
 */
function mixOf(about, parts) {
  return {
    ...about,
    recoverMs: Math.max(...parts.map(({ recoverMs }) => recoverMs)),
    after: (world, { after, told }) => after?.(world, told),
    async inject(world) {
      const kind = world.random.pick(parts.filter(({ missing }) => !missing?.()));
      // Redis forgets where there is no append-only file.
      const losesData = kind.losesData || kind.serverArgs?.includes('--appendonly');
      const told = await kind.inject(world);
      return { told, after: kind.after, fault: { ...excusesOf(kind), losesData, ...told?.fault } };
    },
  };
}

const SERVERS = {
  redis: 'one Redis',
  postgres: 'one PostgreSQL',
  mysql: 'one MySQL',
  mariadb: 'one MariaDB',
  etcd: 'three members of etcd',
  zookeeper: 'three members of ZooKeeper',
};
/** For `busy` and `loading`. There is no append-only file, so every restart loses the data. */
const SERVER = ['--busy-reply-threshold', '50', '--loading-process-events-interval-bytes', '1024'];

/**
 * A mix for each workload of all that needs one server and nothing special of it, and for Redis one for a quorum.
 *
 * @param {readonly import('../index.d.mts').Kind[]} kinds @param {import('../index.d.mts').StoreName} store
 */
export function mixes(kinds, store) {
  const faults = kinds.filter((kind) => 'inject' in kind && !('shift' in kind));
  const forOne = faults.filter(
    (kind) => !('topology' in kind) && !('settings' in kind) && !kind.traffic?.sleeps,
  );
  const forQuorum = faults.filter(
    ({ topology, nodes, serverArgs, losesData }) =>
      topology === 'quorum' && !nodes && !serverArgs && !losesData,
  );
  return [
    ...Object.entries(CALLERS).map(([workload, says]) =>
      mixOf(
        {
          name: workload === 'exclusive' ? 'mixed' : `mixed-${workload}`,
          says: `all kinds for ${SERVERS[store]} in random order; ${says}`,
          ...(store === 'redis' && { serverArgs: SERVER }),
          traffic: { apps: 4, workload },
        },
        forOne,
      ),
    ),
    ...(forQuorum.length > 0
      ? [
          mixOf(
            {
              name: 'mixed-quorum',
              says: 'all kinds for a quorum of three in random order',
              topology: 'quorum',
              traffic: { apps: 4 },
            },
            forQuorum,
          ),
        ]
      : []),
  ];
}
