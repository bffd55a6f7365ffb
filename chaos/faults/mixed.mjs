/** What callers ask for. */
const CALLERS = {
  exclusive: 'one at a time',
  shared: 'readers and writers',
  permits: 'three permits',
  'several-keys': 'one or two keys',
  fair: 'in strict order',
};

/**
 * All kinds that need one Redis and nothing special of it, in random order.
 *
 * @param {readonly import('../index.d.mts').Kind[]} kinds @param {string} [workload] what callers ask for
 * @returns {import('../index.d.mts').Kind}
 */
function mixedOf(kinds, workload = 'exclusive') {
  const parts = kinds.filter((kind) => 'inject' in kind && !('topology' in kind) && !('shift' in kind));
  return {
    name: workload === 'exclusive' ? 'mixed' : `mixed-${workload}`,
    says: `all kinds for one Redis in random order; ${CALLERS[workload]}`,
    // For `busy` and `loading`; there is no append-only file, so every restart loses the data.
    serverArgs: ['--busy-reply-threshold', '50', '--loading-process-events-interval-bytes', '1024'],
    traffic: { apps: 4, workload },
    recoverMs: Math.max(...parts.map(({ recoverMs }) => recoverMs)),
    after: (world, { after, told }) => after?.(world, told),
    async inject(world) {
      const { name, inject, after, recoverMs, stopsStore, losesData } = world.random.pick(
        parts.filter(({ missing }) => !missing?.()),
      );
      const forgets = losesData || ['restart-aof', 'server-down'].includes(name);
      const told = await inject(world);
      return {
        told,
        after,
        fault: { kind: name, recoverMs, stopsStore, losesData: forgets, ...told?.fault },
      };
    },
  };
}

/** A mix for each workload. @param {readonly import('../index.d.mts').Kind[]} kinds */
export function mixes(kinds) {
  return Object.keys(CALLERS).map((workload) => mixedOf(kinds, workload));
}
