import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { WorkerProcess } from '../measure/worker-process.mjs';
import { count, ms, whole } from '../report/format.mjs';
import { atLeast, atMost, noLimit } from '../report/targets.mjs';

const WORKER = fileURLToPath(new URL('../http/worker.mjs', import.meta.url));
const AUTOCANNON = new URL('../../peers/autocannon.mjs', import.meta.url);
const INSTALLED = new URL('../../peers/node_modules/autocannon', import.meta.url);
const COMMAND = [process.execPath, '--no-warnings', WORKER];
const CONNECTIONS = 50;
/** So many that concurrent requests seldom ask for the same item: the scenario measures the lock, not the waiting. */
const ITEMS = 2000;
/** A database makes short turns uneven. */
const MIN_S = 3;

const entrant = (id, name, details) => ({
  id: `ours-${id}`,
  name,
  ...details,
  skipped: existsSync(INSTALLED)
    ? undefined
    : 'autocannon is not installed: npm ci --prefix verification/bench/peers',
});

const COLUMNS = [
  { title: 'requests/s', of: ({ perSecond }) => whole(perSecond) },
  { title: 'least', of: ({ leastPerSecond }) => whole(leastPerSecond) },
  { title: 'p50', of: ({ p50Ms }) => ms(p50Ms) },
  { title: 'p99', of: ({ p99Ms }) => ms(p99Ms) },
  { title: 'p99.9', of: ({ p999Ms }) => ms(p999Ms) },
  { title: 'Node CPU µs', of: ({ nodeUs }) => count(nodeUs) },
  { title: 'other than 2xx', of: ({ failures }) => whole(failures) },
];
/** The scenario compares the route with `@Locked` with this one. A lock that nested calls find cannot cost less. */
const CONTEXT = 'an interceptor that only opens an AsyncLocalStorage';
const PLOT = { title: 'Requests per second', of: ({ perSecond }) => perSecond, show: whole };
const LOAD = `${CONNECTIONS} connections ask for one of ${whole(ITEMS)} items at random. One process serves them and leaves one core to the load.`;

export const http = {
  id: 'http',
  title: 'The purchase of the flash sale on Fastify, with and without @Locked',
  note: `${LOAD} The database is the embedded one, in the same process. The routes without a lock have the same statements. Where purchases of one item cross there, the table refuses the one with the smaller token.`,
  entrants: () => [
    entrant('bare', 'without a lock', { route: 'purchase-bare' }),
    entrant('context', CONTEXT, { route: 'purchase-context' }),
    entrant('memory', '@Locked, memory store', { route: 'purchase' }),
    entrant('redis', '@Locked, Redis store', { route: 'purchase', isOnRedis: true }),
  ],
  columns: COLUMNS,
  plot: PLOT,
  measure: (context, { route, isOnRedis }) =>
    loadApp(context, async (worker) => {
      let buyers = 0;
      const redisUrl = isOnRedis ? context.url : undefined;
      const sale = await worker.ask('sale', { redisUrl, items: ITEMS });
      // Each buyer buys once.
      const headers = () => ({ 'x-user-id': `buyer-${++buyers}` });
      const requestFor = (item) => ({ path: `/goods/${sale.ids[item]}/${route}`, headers: headers() });
      return { url: sale.url, requestFor };
    }),
  targets: ({ rows }) => {
    const [bare, context, memory, redis] = rows.map(({ figures }) => figures);
    if (!bare || !context || !memory || !redis) return [];
    return [
      atLeast(
        `memory store, share of the route behind ${CONTEXT}`,
        memory.perSecond / context.perSecond,
        0.9,
      ),
      noLimit('Redis store, share of the same route', redis.perSecond / context.perSecond),
      noLimit('memory store, share of the route without a lock', memory.perSecond / bare.perSecond),
      noLimit('that interceptor, share of the route without a lock', context.perSecond / bare.perSecond),
    ];
  },
};

/** A handler without work: only Nest and the lock remain. */
export const handler = {
  id: 'handler',
  title: 'A Nest route on Fastify that does nothing, with and without @Locked',
  note: `${LOAD} The handler answers at once.`,
  entrants: () => [
    entrant('bare', 'without a lock'),
    entrant('noop', 'an interceptor that does nothing'),
    entrant('context', CONTEXT),
    entrant('with-lock', 'withLock in the handler, memory store'),
    entrant('memory', '@Locked, memory store'),
    entrant('redis', '@Locked, Redis store'),
  ],
  columns: COLUMNS,
  plot: PLOT,
  measure: (context, { id }) =>
    loadApp(context, async (worker) => {
      const route = id.replace('ours-', '');
      const { url } = await worker.ask('open', { url: context.url });
      return { url, requestFor: (item) => ({ path: `/${route}/goods/${item}/purchase` }) };
    }),
  targets: ({ rows }) => {
    const [bare, , context, , memory] = rows.map(({ figures }) => figures);
    if (!bare || !context || !memory) return [];
    return [
      noLimit(`memory store, share of the route behind ${CONTEXT}`, memory.perSecond / context.perSecond),
      noLimit('memory store, share of the route without a lock', memory.perSecond / bare.perSecond),
      noLimit('that interceptor, share of the route without a lock', context.perSecond / bare.perSecond),
    ];
  },
};

/** @param {import('../stores/store.d.mts').Context} context @param {(worker: WorkerProcess) => Promise<{ url: string, requestFor: (item: number) => object }>} open */
async function loadApp({ observer, ms, warmUpMs }, open) {
  const { default: autocannon } = await import(AUTOCANNON.href);
  // The process before was killed while it held locks.
  await observer.clear();
  const worker = new WorkerProcess(COMMAND);
  try {
    const { url, requestFor } = await open(worker);
    // In turn, connections would form convoys behind one that waits.
    const setupRequest = (request) => ({ ...request, ...requestFor(Math.floor(Math.random() * ITEMS)) });
    const requests = [{ method: 'POST', setupRequest }];
    const load = (seconds) => autocannon({ url, connections: CONNECTIONS, duration: seconds, requests });
    await load(Math.ceil(warmUpMs / 1000));
    await worker.ask('cpu');
    const result = await load(Math.max(MIN_S, ms / 1000));
    const { cpuUs } = await worker.ask('cpu');
    return {
      perSecond: result.requests.total / result.duration,
      p50Ms: result.latency.p50,
      p99Ms: result.latency.p99,
      p999Ms: result.latency.p99_9,
      nodeUs: cpuUs / result.requests.total,
      failures: result.non2xx + result.errors,
    };
  } finally {
    worker.kill();
  }
}

const METHODS = [1, 10, 100, 1000];

/** Calls must not look their method up among the others. */
export const methods = {
  id: 'methods',
  title: 'A call of a locked method, by how many the application has',
  entrants: () =>
    METHODS.map((count) => ({ id: `ours-${count}`, name: `${whole(count)} locked methods`, count })),
  columns: [{ title: 'Node CPU µs for a call', of: ({ us }) => count(us) }],
  rounds: 1,
  measure: async (_, entrant) => {
    const worker = new WorkerProcess(COMMAND);
    try {
      return await worker.ask('methods', { count: entrant.count });
    } finally {
      worker.kill();
    }
  },
  targets: ({ rows }) => {
    const costs = rows.map(({ figures }) => figures?.us ?? NaN);
    return [atMost('1 000 methods, times the cost with 10', costs[3] / costs[1], 1.5)];
  },
};
