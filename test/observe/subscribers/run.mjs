// node test/observe/subscribers/run.mjs: real tracers on the tracing channels of the built package. Needs no network.
import assert from 'node:assert/strict';
import { LockService, memoryStore } from 'nestjs-distributed-lock';

const tracer = process.argv[2];
const { traceWithSentry, traceWithOpenTelemetry } = await import(`./${tracer}.mjs`);
const traced = traceWithSentry ?? traceWithOpenTelemetry;

const locks = new LockService({ store: memoryStore() });
const spans = await traced(async (child) => {
  await locks.withLock('goods:1', () => child('pay', async () => undefined));
  const held = await locks.acquire('goods:2');
  await assert.rejects(locks.withLock('goods:2', { waitMs: 0 }, () => undefined));
  await locks.forceRelease('goods:2');
  await held.release();
});
await locks.close();

const failed = { parent: 'request', isFailed: true };
const good = { parent: 'request', isFailed: false };
const byName = (a, b) => `${a.name} ${a.isFailed}`.localeCompare(`${b.name} ${b.isFailed}`);
// Sentry makes the hold the active span of the work. OpenTelemetry offers its context to no channel.
const pay = { name: 'pay', parent: tracer === 'sentry' ? 'hold goods:1' : 'request', isFailed: false };
assert.deepEqual(
  spans.toSorted(byName),
  [
    { name: 'acquire goods:1', ...good },
    { name: 'acquire goods:2', ...good },
    { name: 'acquire goods:2', ...failed },
    { name: 'hold goods:1', ...good },
    { name: 'hold goods:2', ...failed },
    pay,
  ].toSorted(byName),
);
console.log(`${tracer}: ${spans.length} spans`);
