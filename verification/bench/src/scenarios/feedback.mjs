import { Agent, request } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { OURS, peers } from '../../contestants/index.mjs';
import { Histogram } from '../measure/histogram.mjs';
import { WorkerProcess } from '../measure/worker-process.mjs';
import { count, ms, whole } from '../report/format.mjs';
import { noLimit } from '../report/targets.mjs';

const APP = [
  process.execPath,
  '--no-warnings',
  fileURLToPath(new URL('../http/worker.mjs', import.meta.url)),
];
const APPS = 2;
const CLIENTS = 300;
const WORK_MS = 5;
/** A client that got an error sends the request again, as SDKs do. */
const TRIES = 4;
const PAUSE_MS = 200;
/** A caller may wait for seconds. */
const TIMES = 2;

/** The published workload of Trigger.dev: a key that all requests want, and clients that answer errors by more requests. */
export const feedback = {
  id: 'feedback',
  title: 'A hot key behind HTTP, and clients that send again after an error',
  note: `After [Trigger.dev pull request 3453](https://github.com/triggerdotdev/trigger.dev/pull/3453): requests of one debounce key wait for one lock, those that give up become errors 5xx, and the clients send them again. Here ${CLIENTS} clients call a route of ${APPS} Nest applications that works for ${WORK_MS} ms under one lock. After an error a client sends again in ${PAUSE_MS} ms, ${TRIES} times in all. Each library waits as long as it does by default.`,
  entrants: () => [OURS, ...peers().filter(({ id }) => id === 'redlock')],
  columns: [
    { title: 'calls/s', of: ({ perSecond }) => whole(perSecond) },
    { title: 'requests for a call', of: ({ requests }) => count(requests) },
    { title: '5xx, % of requests', of: ({ errorShare }) => count(errorShare * 100) },
    { title: 'p50', of: ({ p50Ms }) => ms(p50Ms) },
    { title: 'p99', of: ({ p99Ms }) => ms(p99Ms) },
    { title: 'p99.9', of: ({ p999Ms }) => ms(p999Ms) },
    { title: 'calls that failed', of: ({ failures }) => whole(failures) },
  ],
  plot: { title: 'Longest of 99 in 100 calls', of: ({ p99Ms }) => p99Ms, show: ms },
  rounds: 3,
  measure: callHotRoute,
  targets: ({ ours }) => [noLimit('requests answered 5xx, share', ours.errorShare)],
};

/** @param {import('../stores/store.d.mts').Context} context @param {import('../../contestants/index.mjs').Entrant} entrant */
async function callHotRoute({ observer, url: redisUrl, ms, warmUpMs }, { command }) {
  await observer.clear();
  const apps = Array.from({ length: APPS }, () => new WorkerProcess(APP));
  const agent = new Agent({ keepAlive: true, maxSockets: Infinity });
  try {
    const details = { redisUrl, contestant: command.at(-1), workMs: WORK_MS };
    const opened = await Promise.all(apps.map((app) => app.ask('hot', details)));
    const urls = opened.map(({ url }) => url);
    await callFor(Math.min(ms, warmUpMs), urls, agent);
    return await callFor(ms * TIMES, urls, agent);
  } finally {
    agent.destroy();
    for (const app of apps) app.kill();
  }
}

/** Clients that call until the time is up. Their last calls are counted, too. @param {number} runMs @param {readonly string[]} urls @param {Agent} agent */
async function callFor(runMs, urls, agent) {
  const took = new Histogram();
  const sums = { calls: 0, requests: 0, errors: 0, failures: 0 };
  const startedAt = performance.now();
  const client = async (_, i) => {
    while (performance.now() - startedAt < runMs) {
      const askedAt = performance.now();
      const answer = await call(urls[i % urls.length], agent, sums);
      took.add(performance.now() - askedAt);
      sums[answer]++;
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  const { calls, requests, errors, failures } = sums;
  return {
    perSecond: (calls * 1000) / (performance.now() - startedAt),
    requests: requests / (calls + failures),
    errorShare: errors / requests,
    p50Ms: took.quantile(0.5),
    p99Ms: took.quantile(0.99),
    p999Ms: took.quantile(0.999),
    failures,
  };
}

/** @param {string} url @param {Agent} agent @param {{ requests: number, errors: number }} sums @returns {Promise<'calls' | 'failures'>} */
async function call(url, agent, sums) {
  for (let tried = 1; ; tried++) {
    sums.requests++;
    if ((await statusOf(url, agent)) < 400) return 'calls';
    sums.errors++;
    if (tried === TRIES) return 'failures';
    await pause(PAUSE_MS);
  }
}

/** @param {string} url @param {Agent} agent @returns {Promise<number>} */
const statusOf = (url, agent) =>
  new Promise((resolve, reject) => {
    const sent = request(url, { method: 'POST', agent }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode ?? 0));
    });
    sent.on('error', reject).end();
  });
