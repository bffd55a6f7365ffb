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
const ITEMS = 64;
/** The compilers have more to see of a locked route than of a bare one. */
const WARM_UP_S = 5;

const entrant = (id, name) => ({
  id: `ours-${id}`,
  route: id,
  name,
  skipped: existsSync(INSTALLED) ? undefined : 'autocannon is not installed: npm ci --prefix bench/peers',
});

/** The route of the flash sale on Fastify, without its database: what is left is Nest and the lock. */
export const http = {
  id: 'http',
  title: 'A Nest route on Fastify, with and without @Locked',
  note: `${CONNECTIONS} connections ask for ${ITEMS} items in turn; the handler answers at once. One process serves, one core is left for the load.`,
  entrants: () => [
    entrant('bare', 'without a lock'),
    entrant('least', 'an interceptor that does nothing but run the handler in an AsyncLocalStorage'),
    entrant('memory', '@Locked, memory store'),
    entrant('redis', '@Locked, Redis store'),
  ],
  columns: [
    { title: 'requests/s', of: ({ perSecond }) => whole(perSecond) },
    { title: 'p50', of: ({ p50Ms }) => ms(p50Ms) },
    { title: 'p99', of: ({ p99Ms }) => ms(p99Ms) },
    { title: 'Node CPU µs', of: ({ nodeUs }) => count(nodeUs) },
    { title: 'other than 2xx', of: ({ failures }) => whole(failures) },
  ],
  plot: { title: 'Requests per second', of: ({ perSecond }) => perSecond, show: whole },
  measure: loadRoute,
  targets: ({ rows }) => {
    const [bare, least, memory] = rows.map(({ figures }) => figures);
    if (!bare || !least || !memory) return [];
    return [
      atLeast('memory store, share of the bare route', memory.perSecond / bare.perSecond, 0.85),
      noLimit('the same of an interceptor that does nothing', least.perSecond / bare.perSecond),
      noLimit('memory store, share of that interceptor', memory.perSecond / least.perSecond),
    ];
  },
};

async function loadRoute({ url, ms }, { route }) {
  const { default: autocannon } = await import(AUTOCANNON.href);
  const worker = new WorkerProcess(COMMAND);
  try {
    const app = await worker.ask('open', { url });
    const requests = Array.from({ length: ITEMS }, (_, i) => ({
      method: 'POST',
      path: `/${route}/goods/${i}/purchase`,
    }));
    const load = (seconds) =>
      autocannon({ url: app.url, connections: CONNECTIONS, duration: seconds, requests });
    await load(WARM_UP_S);
    await worker.ask('cpu');
    const result = await load(Math.max(1, ms / 1000));
    const { cpuUs } = await worker.ask('cpu');
    return {
      perSecond: result.requests.total / result.duration,
      p50Ms: result.latency.p50,
      p99Ms: result.latency.p99,
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
